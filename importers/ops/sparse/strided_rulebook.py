"""Makes the rulebook of a strided sparse convolution: cells of the output, and the row that each tap multiplies.

Expands the rulebook of a sparse convolution with strides into standard ONNX operators.

There may be no cells although there are rows, which Reshape cannot be told before opset 14: hence -1 for what is left.
Unique sorts the cells of the output, and gives the first position of every value: of the pairs (tap, cell) that rows reach
and those that are wanted in one list, the first position of a wanted one is that of the first row that reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value, bounded
from trtsmith.importers.dims import smaller
from trtsmith.importers.opdef import Arrays, Expansion, Field, Fields, Kind, OpDef, Port, Shapes
from trtsmith.importers.ops.sparse import _grids as grids
from trtsmith.importers.ops.sparse import _rulebook_onnx as parts
from trtsmith.importers.ops.sparse._autoware_rulebooks import STRIDED
from trtsmith.importers.ops.sparse._rulebook_cases import STRIDED_CASES

_NONE = [-1]


def expand(expansion: Expansion) -> tuple[Value, ...]:
    """Lists the cells that taps reach, in order and once each, and the first row of each tap and cell."""
    g = Builder(expansion.opset)
    fields = dict(expansion.fields)
    bounded(grids.taps(fields))
    numbers, out = grids.numbers(fields["kernel_size"]), grids.output_shape(fields)
    every = fields["batch_size"] * math.prod(out)
    limit = fields["limit"] or 2**40
    taps = [len(numbers)]
    image, cell = parts.columns(g)
    rows = g.Shape("indices")[:1]

    # whether a tap's cell of the output exists, and which it is along each axis, [K, N]
    there, met = parts.valid_rows(image, cell, fields["batch_size"], fields["spatial_shape"]), []
    for axis, place in enumerate(cell):
        padding, stride = fields["padding"][axis], fields["stride"][axis]
        reach = place + parts.column([padding - tap[axis] * fields["dilation"][axis] for tap in numbers])
        at = reach / stride
        there = there & (g.Equal(at * stride, reach) & parts.within(at, out[axis]))
        met.append(at)
    reached = parts.key(image, met, out)
    reached_size = g.Mul(taps, rows)
    reached_list = g.Reshape(g.Where(there, reached, _NONE), [-1])
    none_and_cells, *_ = g.Unique(g.Concat(_NONE, reached_list, axis=0), sorted=1, outputs=4)
    cells = none_and_cells[1 : limit + 1]
    cells_size = g.Shape(cells)

    column_shape = g.vector(cells_size, 1)
    rest, places = cells, []
    for size in reversed(out):
        places.append(g.Mod(rest, max(size, 1)))
        rest = rest / max(size, 1)
    indices = g.Concat(*(g.Reshape(each, column_shape) for each in (rest, *reversed(places))), axis=1)

    tap_start = parts.column([tap * every for tap in range(len(numbers))])
    tap_list = g.Reshape(g.Where(there, reached + tap_start, _NONE), [-1])
    wanted = g.Reshape(cells + tap_start, [-1])
    first = parts.first_positions(g, tap_list, wanted, reached_size, g.Mul(taps, cells_size), -2)
    row = g.Mod(first, g.Where(g.Equal(rows, [0]), [1], rows))
    pairs = g.Cast(g.Where(first < reached_size, row, _NONE), to="int32")
    return (
        g.Cast(indices, to="int32"),
        g.Reshape(pairs, g.Concat(taps, [-1], axis=0)),
        g.Cast(g.Squeeze(cells_size), to="int32"),
    )


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    count = shapes["count"][0]
    return {"output_indices": (count, 4), "pairs": (grids.taps(fields), count), "count": ()}


def _bounds(fields: Fields, shapes: Shapes) -> dict[str, Any]:
    most = fields["batch_size"] * math.prod(grids.output_shape(fields))
    most = min(most, fields["limit"] or most)
    return {"count": smaller(shapes["indices"][0] * grids.reached(fields), most)}


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """For each tap a dictionary from the cells of the output that it reaches, by their numbers, to the first row."""
    cells = inputs["indices"].astype(np.int64)
    inside = ((cells >= 0) & (cells < np.array((fields["batch_size"], *fields["spatial_shape"])))).all(1)
    out = (fields["batch_size"], *(max(size, 1) for size in grids.output_shape(fields)))
    stride, padding, dilation = (np.array(fields[name]) for name in ("stride", "padding", "dilation"))
    reached: list[dict[int, int]] = []
    for number in grids.numbers(fields["kernel_size"]):
        reach = cells[:, 1:] + padding - np.array(number) * dilation
        met = (reach % stride == 0) & (reach >= 0) & (reach < stride * np.array(grids.output_shape(fields)))
        rows = np.flatnonzero(inside & met.all(1))
        keys = np.ravel_multi_index((cells[rows, 0], *(reach[rows] // stride).T), out)
        first: dict[int, int] = {}
        for key, row in zip(keys.tolist(), rows.tolist(), strict=True):
            first.setdefault(key, row)
        reached.append(first)
    kept = sorted(set().union(*reached))[: fields["limit"] or None]
    pairs = [[first.get(key, -1) for key in kept] for first in reached]
    places = np.unravel_index(np.array(kept, np.int64), out)
    return {
        "output_indices": np.stack(places, axis=1).astype(np.int32),
        "pairs": np.array(pairs, np.int32).reshape(len(reached), len(kept)),
        "count": np.array(len(kept), np.int32),
    }


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The different cells by torch.unique, and the first row of each tap and cell by scatter_reduce."""
    import torch

    indices = inputs["indices"].long()
    image, *place = indices.unbind(1)
    _, inside = grids.torch_key([image, *place], (fields["batch_size"], *fields["spatial_shape"]))
    out = (fields["batch_size"], *grids.output_shape(fields))
    keys = []
    for number in grids.numbers(fields["kernel_size"]):
        there, cell = inside, [image]
        for axis, at in enumerate(place):
            stride = fields["stride"][axis]
            reach = at + fields["padding"][axis] - number[axis] * fields["dilation"][axis]
            there = there & (reach % stride == 0)
            cell.append(reach.div(stride, rounding_mode="floor"))
        key, within = grids.torch_key(cell, out)
        keys.append(torch.where(there & within, key, -1))
    table = torch.stack(keys)
    cells = torch.unique(table)
    cells = cells[cells >= 0][: fields["limit"] or None]
    taps, rows = table.shape
    at = torch.searchsorted(cells, table).clamp(max=max(len(cells) - 1, 0))
    known = (table >= 0) & (cells[at] == table if len(cells) else torch.zeros_like(table, dtype=torch.bool))
    tap, row = known.nonzero(as_tuple=True)
    pairs = torch.full((taps * len(cells),), rows, device=indices.device)
    pairs.scatter_reduce_(0, tap * len(cells) + at[tap, row], row, "amin")
    pairs = torch.where(pairs < rows, pairs, -1).reshape(taps, len(cells)).int()
    columns, rest = [], cells
    for size in reversed(out[1:]):
        columns.append(rest % max(size, 1))
        rest = rest.div(max(size, 1), rounding_mode="floor")
    places = torch.stack([rest, *reversed(columns)], 1).int()
    return places, pairs, torch.tensor(len(cells), dtype=torch.int32, device=indices.device)


STRIDED_RULEBOOK = OpDef(
    name="StridedRulebook",
    doc=(
        "The cells of a sparse convolution's output, in the order (batch, z, y, x), and for each tap and each of them the "
        "row whose cell it reads, or -1: of several rows with the same coordinates the first. Rows outside of the grid "
        "reach nothing. Where a limit is given, cells beyond it are left out, the last ones first."
    ),
    inputs=(grids.INDICES,),
    outputs=(
        Port("output_indices", "S", 2, "[M, 4] (batch, z, y, x) of the output's rows"),
        Port("pairs", "S", 2, f"[K, M] {grids.PAIRS_DOC}"),
        Port("count", "S", 0, "number of the output's rows", size=True),
    ),
    fields=(
        grids.BATCH_SIZE,
        grids.SPATIAL_SHAPE,
        grids.KERNEL_SIZE,
        Field("stride", Kind.INTS, "(z, y, x)", length=3, default=(1, 1, 1), minimum=1),
        Field(
            "padding", Kind.INTS, "cells before and behind, (z, y, x)", length=3, default=(0, 0, 0), minimum=0
        ),
        grids.DILATION,
        Field("limit", Kind.INT, "most rows of the output; 0: as many as there can be", default=0, minimum=0),
    ),
    shape=_shape,
    bounds=_bounds,
    check=grids.check_strided,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=STRIDED,
    cases=STRIDED_CASES,
    workspace=True,
)
