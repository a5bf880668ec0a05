"""Makes the rulebook of a submanifold convolution (Graham et al., arXiv 1711.10275): the row that each tap multiplies.

Expands the rulebook of a submanifold convolution into standard ONNX operators.

Unique gives the first position of every value, so that of rows and wanted cells in one list, the first position of a
wanted cell is that of the row that has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value, bounded
from trtsmith.importers.opdef import Arrays, Expansion, Fields, OpDef, Port, Shapes, Work
from trtsmith.importers.ops.sparse import _grids as grids
from trtsmith.importers.ops.sparse import _rulebook_onnx as parts
from trtsmith.importers.ops.sparse._autoware_rulebooks import SUBMANIFOLD
from trtsmith.importers.ops.sparse._rulebook_cases import SUBMANIFOLD_BENCHMARKS, SUBMANIFOLD_CASES

_OUTSIDE, _LOST = -2, -1


def expand(expansion: Expansion) -> Value:
    """Looks up, for each row, the number of the cell that each tap reads, among the rows' own numbers."""
    g = Builder(expansion.opset)
    fields = expansion.fields
    sizes = fields["spatial_shape"]
    bounded(grids.taps(fields))
    numbers = grids.numbers(fields["kernel_size"])
    taps = [len(numbers)]
    image, cell = parts.columns(g)
    rows = g.Shape("indices")[:1]
    valid = parts.valid_rows(image, cell, fields["batch_size"], sizes)
    row_keys = g.Where(valid, parts.key(image, cell, sizes), _LOST)
    there, read = valid, []
    for axis, place in enumerate(cell):
        middle, dilation = fields["kernel_size"][axis] // 2, fields["dilation"][axis]
        at = place + parts.column([(tap[axis] - middle) * dilation for tap in numbers])
        there = there & parts.within(at, sizes[axis])
        read.append(at)
    wanted_size = g.Mul(taps, rows)
    wanted = g.Reshape(g.Where(there, parts.key(image, read, sizes), _OUTSIDE), wanted_size)
    first = parts.first_positions(g, row_keys, wanted, rows, wanted_size, -3)
    row_or_none = g.Where(first < rows, first, [-1])
    return g.Reshape(g.Cast(row_or_none, to="int32"), g.Concat(taps, rows, axis=0))


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"pairs": (grids.taps(fields), shapes["indices"][0])}


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """A dictionary from cells, by their numbers, to the first row that each has."""
    sizes = (fields["batch_size"], *fields["spatial_shape"])
    cells = inputs["indices"].astype(np.int64)
    inside = ((cells >= 0) & (cells < np.array(sizes))).all(1)
    keys = np.ravel_multi_index(tuple(cells[inside].T), sizes)
    rows: dict[int, int] = {}
    for key, row in zip(keys.tolist(), np.flatnonzero(inside).tolist(), strict=True):
        rows.setdefault(key, row)
    pairs = np.full((grids.taps(fields), len(cells)), -1, np.int32)
    for tap, number in enumerate(grids.numbers(fields["kernel_size"])):
        shift = [
            (n - k // 2) * d
            for n, k, d in zip(number, fields["kernel_size"], fields["dilation"], strict=True)
        ]
        moved = cells + np.array([0, *shift])
        there = inside & ((moved >= 0) & (moved < np.array(sizes))).all(1)
        wanted = np.ravel_multi_index(tuple(moved[there].T), sizes)
        pairs[tap, there] = [rows.get(key, -1) for key in wanted.tolist()]
    return {"pairs": pairs}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Numbers of cells in order, and a bisection for each tap."""
    import torch

    indices = inputs["indices"].long()
    image, z, y, x = indices.unbind(1)
    sizes = (fields["batch_size"], *fields["spatial_shape"])
    key, inside = grids.torch_key([image, z, y, x], sizes)
    ordered, rows = torch.sort(torch.where(inside, key, -1), stable=True)
    found = []
    for number in grids.numbers(fields["kernel_size"]):
        dz, dy, dx = (
            (n - k // 2) * d
            for n, k, d in zip(number, fields["kernel_size"], fields["dilation"], strict=True)
        )
        wanted, there = grids.torch_key([image, z + dz, y + dy, x + dx], sizes)
        there = there & inside
        wanted = torch.where(there, wanted, 0)
        at = torch.searchsorted(ordered, wanted).clamp(max=max(len(ordered) - 1, 0))
        same = there & (ordered[at] == wanted)
        found.append(torch.where(same, rows[at], -1))
    return (torch.stack(found).int(),)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Nothing is multiplied; an operation is counted for each cell that is looked up."""
    taps, rows = shapes["pairs"]
    return Work(flops=taps * rows)


SUBMANIFOLD_RULEBOOK = OpDef(
    name="SubmanifoldRulebook",
    doc=(
        "For each tap of a submanifold convolution and each row, the row whose cell lies there, or -1. Rows outside of the "
        "grid are nobody's neighbours and have none; of several rows with the same coordinates the first is found."
    ),
    inputs=(grids.INDICES,),
    outputs=(Port("pairs", "S", 2, f"[K, N] {grids.PAIRS_DOC}"),),
    fields=(grids.BATCH_SIZE, grids.SPATIAL_SHAPE, grids.KERNEL_SIZE, grids.DILATION),
    shape=_shape,
    check=grids.check_submanifold,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=SUBMANIFOLD,
    cases=SUBMANIFOLD_CASES,
    benchmarks=SUBMANIFOLD_BENCHMARKS,
    work=_work,
    workspace=True,
)
