"""Sums features of cameras, weighted with depths, into a grid seen from above (Huang and Huang, BEVPoolv2, 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Arrays, Field, Fields, Kind, OpDef, Port, Shapes, Work
from trtsmith.importers.ops._limits import faults_of_int32
from trtsmith.importers.ops.bev._bev_pool_aliases import ALIASES
from trtsmith.importers.ops.bev._bev_pool_cases import BENCHMARKS, CASES, HUGE, pool
from trtsmith.importers.ops.bev._bev_pool_onnx import expand_bev_pool


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    grid = fields["output_planes"], fields["output_height"], fields["output_width"]
    return {"output": (*grid, shapes["feat"][3])}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    for one, other, axes in (
        ("depth", "feat", ((0, 0), (2, 1), (3, 2))),
        ("ranks_depth", "ranks_feat", ((0, 0),)),
        ("ranks_depth", "ranks_bev", ((0, 0),)),
        ("interval_starts", "interval_lengths", ((0, 0),)),
    ):
        if one not in shapes or other not in shapes:
            continue
        for i, j in axes:
            found, wanted = shapes[other][j], shapes[one][i]
            if found is not None and wanted is not None and found != wanted:
                faults.append(f"{other}[{j}] = {found}, but {one}[{i}] = {wanted}")
    cells = fields["output_planes"] * fields["output_height"] * fields["output_width"]
    if cells >= 2**31:
        faults.append(f"{cells} cells, more than 2^31 - 1")
    return faults + faults_of_int32(shapes, ("interval_starts", 0))


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    return {"output": pool(fields, inputs)}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """The last interval of every cell by scatter_reduce, and its points by index_add."""
    import torch

    depth, feat = inputs["depth"].flatten(), inputs["feat"].flatten(0, 2)
    which, row, cell = (inputs[name].long() for name in ("ranks_depth", "ranks_feat", "ranks_bev"))
    start, length = inputs["interval_starts"].long(), inputs["interval_lengths"].long()
    grid = fields["output_planes"], fields["output_height"], fields["output_width"]
    output = feat.new_zeros(math.prod(grid), feat.shape[1])
    number = torch.arange(len(start), device=start.device)
    number = number[(start >= 0) & (start < len(cell)) & (length > 0)]
    own = cell[start[number]]
    number = number[(own >= 0) & (own < len(output))]
    own = cell[start[number]]
    last = torch.full((len(output),), -1, device=start.device).scatter_reduce_(0, own, number, "amax")
    number = number[last[own] == number]
    length = torch.minimum(length[number], len(cell) - start[number])
    target = torch.repeat_interleave(cell[start[number]], length)
    before = torch.repeat_interleave(length.cumsum(0) - length, length)
    point = torch.repeat_interleave(start[number], length) - before
    point = point + torch.arange(len(point), device=point.device)
    which, row = which[point], row[point]
    exists = (which >= 0) & (which < len(depth)) & (row >= 0) & (row < len(feat))
    weighted = depth[which[exists]][:, None] * feat[row[exists]]
    output.index_add_(0, target[exists], weighted)
    return (output.reshape(*grid, feat.shape[1]),)


def _index_add(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """What PyTorch code does where every point counts."""
    depth, feat = inputs["depth"].flatten(), inputs["feat"].flatten(0, 2)
    grid = fields["output_planes"], fields["output_height"], fields["output_width"]
    weighted = depth[inputs["ranks_depth"]][:, None] * feat[inputs["ranks_feat"]]
    output = feat.new_zeros(math.prod(grid), feat.shape[1]).index_add_(0, inputs["ranks_bev"], weighted)
    return (output.reshape(*grid, feat.shape[1]),)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Every point counted as if it were in one interval."""
    return Work(flops=2 * shapes["ranks_depth"][0] * shapes["feat"][3])


def _ranks(name: str, doc: str) -> Port:
    return Port(name, "S", 1, doc)


BEV_POOL = OpDef(
    name="BevPool",
    doc=(
        "Sums of features of cameras, weighted with depths, in the cells of a grid seen from above. An interval is a run of "
        "points, and its sum goes to the cell of its first point: points in no interval do not count, and intervals may "
        "come in any order. Of several intervals of one cell the last counts. A cell without an interval is zero. A point "
        "whose ranks do not exist counts as nothing, as does an interval that begins at none, or has none."
    ),
    inputs=(
        Port("depth", "T", 4, "[N, D, H, W], the weight of each depth at each pixel", meaning=Meaning.SHARE),
        Port("feat", "T", 4, "[N, H, W, C]"),
        _ranks("ranks_depth", "[P] position of each point's weight in depth"),
        _ranks("ranks_feat", "[P] row of each point's features, a pixel of feat"),
        _ranks("ranks_bev", "[P] cell of each point, counted through planes, rows and columns"),
        _ranks("interval_starts", "[I] first point of each interval"),
        _ranks("interval_lengths", "[I] number of points of each interval"),
    ),
    outputs=(Port("output", "T", 4, "[output_planes, output_height, output_width, C]"),),
    fields=(
        Field("output_height", Kind.INT, "rows of a grid", minimum=1),
        Field("output_width", Kind.INT, "columns of a grid", minimum=1),
        Field("output_planes", Kind.INT, "grids, one for each frame and each height", default=1, minimum=1),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_bev_pool,
    aliases=ALIASES,
    cases=CASES,
    tolerance={"float32": 2e-6, "float16": 6e-4, "bfloat16": 4.5e-3},
    huge=HUGE,
    benchmarks=BENCHMARKS,
    baselines={"index_add": _index_add},
    work=_work,
    workspace=True,
)
