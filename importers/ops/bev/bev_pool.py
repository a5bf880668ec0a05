"""Sums features of cameras, weighted with depths, into a grid seen from above (Huang and Huang, BEVPoolv2, 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
    attrs,
)
from trtsmith.importers.ops._shared import faults_of_int32, size_faults
from trtsmith.importers.ops.bev._bev_pool_cases import BENCHMARKS, CASES, pool
from trtsmith.importers.ops.bev._cells_onnx import last_owners

INPUTS = (
    "depth",
    "feat",
    "ranks_depth",
    "ranks_feat",
    "ranks_bev",
    "interval_starts",
    "interval_lengths",
)


def _guard(node: AliasedNode) -> Refusal | None:
    """BEVDet wrote out_height and out_width at first, and output_height, output_width and output_z since."""
    a = node.attrs
    for size in ("height", "width"):
        names = f"out_{size}", f"output_{size}"
        given = [name for name in names if a[name] != 0]
        if len(given) != 1:
            return Refusal(
                " and ".join(f"{name} = {a[name]}" for name in names),
                f"one of {names[0]!r} and {names[1]!r}",
                "give the size of the grid once",
            )
        if a[given[0]] < 0:
            return Refusal(f"{given[0]} = {a[given[0]]}", "1 or more", f"correct {given[0]!r}")
    return None


def _fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "output_planes": a["output_z"],
        "output_height": a["out_height"] or a["output_height"],
        "output_width": a["out_width"] or a["output_width"],
    }


def _channels_first(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    first = g.Transpose("output", perm=[3, 0, 1, 2])
    return {"result": g.Reshape(first, [1, g.Shape(first)])}


def _bevdet(op_type: str, source: str) -> tuple[Alias, Alias]:
    """[1, H, W, C] of one plane, and [1, C, Z, H, W] of several: BEVDet moves channels back only of one."""
    alias = Alias(
        op_type=op_type,
        domains=("mmdeploy",),
        inputs=INPUTS,
        attributes=attrs(out_height=0, out_width=0, output_height=0, output_width=0, output_z=1),
        when=lambda node: node.attrs["output_z"] == 1,
        guard=_guard,
        fields=_fields,
        source=source,
    )
    several = replace(alias, when=None, outputs=("result",), epilogue=_channels_first)
    return alias, replace(several, source=f"the same with output_z above 1, [1, C, Z, H, W]; {source}")


def _bevformer(op_type: str, source: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("custom", "custom_op"),
        inputs=INPUTS,
        attributes=attrs(out_height=int, out_width=int),
        fields=lambda node: {
            "output_planes": 1,
            "output_height": node.attrs["out_height"],
            "output_width": node.attrs["out_width"],
        },
        source=source,
    )


def _rows_of_a_camera(node: AliasedNode) -> dict[str, Value]:
    """The points as pixels of one image, each with the weight 1."""
    g = node.builder()
    points = g.Shape("points")[:1]
    row, column, layer, image = (g.Gather("cells", axis, axis=1) for axis in range(4))
    height, width, layers = (np.int32(node.attrs[name]) for name in ("height", "width", "dimension"))
    numbers = g.Cast(g.arange(points), to="int32")
    one = g.Cast(1.0, to=node.dtypes.get("points", "float32"))
    return {
        "depth": g.Expand(one, g.vector(1, 1, 1, points)),
        "feat": g.Reshape("points", g.vector(1, 1, g.Shape("points"))),
        "ranks_depth": numbers,
        "ranks_feat": numbers,
        "ranks_bev": ((image * layers + layer) * height + row) * width + column,
    }


def _by_image(node: AliasedNode) -> dict[str, Value]:
    sizes = [node.attrs[name] for name in ("batch_size", "dimension", "height", "width")]
    return {"result": node.builder().Reshape("output", [*sizes, -1])}


_BEVFUSION = Alias(
    op_type="QuickCumsumCuda",
    domains=("autoware",),
    inputs=("points", "cells", "interval_lengths", "interval_starts"),
    attributes=tuple(Attr(name, Kind.INT) for name in ("batch_size", "dimension", "height", "width")),
    fields=lambda node: {
        "output_planes": node.attrs["batch_size"] * node.attrs["dimension"],
        "output_height": node.attrs["height"],
        "output_width": node.attrs["width"],
    },
    outputs=("result",),
    prologue=_rows_of_a_camera,
    epilogue=_by_image,
    source="Autoware, autoware_tensorrt_plugins, quick_cumsum_cuda_plugin; BEVFusion, ops/bev_pool",
)

ALIASES = (
    _BEVFUSION,
    *_bevdet("bev_pool_v2", "BEVDet, mmdet3d/ops/bev_pool_v2; mmdeploy's fork for it, trt_bev_pool"),
    *_bevdet("bev_pool_v3", "BEVDet's successors, TRTBEVPoolv3: another backward pass, the same node"),
    _bevformer("BEVPoolV2TRT", "BEVFormer_tensorrt, bevPoolPlugin"),
    _bevformer("BEVPoolV2TRT2", "BEVFormer_tensorrt, bevPoolPlugin with half2"),
)


_NONE = np.zeros(1, np.float32)


def expand_bev_pool(expansion: Expansion) -> Value:
    """Sums all intervals, each padded to the longest, and takes each cell's sum from its last interval."""
    g = Builder(expansion.opset)
    sizes = [expansion.fields[name] for name in ("output_planes", "output_height", "output_width")]
    first, point = _points(g)

    def rank(name: str, index: Value) -> Value:
        """Gathers by index, with -1 for a point behind the last."""
        return g.Gather(g.Concat(g.Cast(name, to="int64"), [-1], axis=0), index, axis=0)

    depth_rank, feat_rank = rank("ranks_depth", point), rank("ranks_feat", point)
    depth = g.Reshape("depth", [-1])
    depths = g.Reshape(g.Shape(depth), [1])
    feat_shape = g.Shape("feat")
    channels = feat_shape[3:4]
    rows = g.ReduceProd(feat_shape[:3], keepdims=1)
    no_features = g.Expand(_NONE, [1, channels])
    feat = g.Concat(g.Reshape("feat", [rows, channels]), no_features, axis=0)
    both_exist = ~((depth_rank < [0]) | (feat_rank < [0])) & ((depth_rank < depths) & (feat_rank < rows))
    weight = g.Gather(g.Concat(depth, _NONE, axis=0), g.Where(both_exist, depth_rank, depths), axis=0)
    features = g.Gather(feat, g.Where(both_exist, feat_rank, rows), axis=0)
    weighted = features * g.Reshape(weight, g.Concat(g.Shape(weight), [1], axis=0))
    sums = g.Concat(no_features, g.ReduceSum(weighted, axes=[1], keepdims=0), axis=0)

    cells = [math.prod(sizes)]
    cell = rank("ranks_bev", first)
    cell = g.Where(~(cell < [0]) & (cell < cells), cell, cells)
    return g.Reshape(g.Gather(sums, last_owners(g, cell, cells), axis=0), g.Concat(sizes, channels, axis=0))


def _points(g: Builder) -> tuple[Value, Value]:
    """Each interval's first point [I], and its points [I, most]; one behind the last where it has fewer."""
    starts, lengths = g.Cast("interval_starts", to="int64"), g.Cast("interval_lengths", to="int64")
    points = g.Reshape(g.Shape("ranks_bev"), [1])
    usable = ~(starts < [0]) & (starts < points) & (lengths > [0])
    left = points - starts
    count = g.Where(usable, g.Where(left < lengths, left, lengths), [0])
    offsets = g.Range(0, g.ReduceMax(g.Concat(count, [1], axis=0), keepdims=0), 1)
    column = g.vector(g.Shape(starts), 1)
    first = g.Where(usable, starts, points)
    return first, g.Where(offsets < g.Reshape(count, column), g.Reshape(first, column) + offsets, points)


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    grid = fields["output_planes"], fields["output_height"], fields["output_width"]
    return {"output": (*grid, shapes["feat"][3])}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = size_faults(
        shapes,
        *(("feat", axis, "depth", other) for axis, other in enumerate((0, 2, 3))),
        *((name, 0, "ranks_depth", 0) for name in ("ranks_feat", "ranks_bev")),
        ("interval_lengths", 0, "interval_starts", 0),
    )
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
    benchmarks=BENCHMARKS,
    baselines={"index_add": _index_add},
    work=_work,
    workspace=True,
)
