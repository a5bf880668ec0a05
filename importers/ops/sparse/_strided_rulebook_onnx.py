"""Expands the rulebook of a sparse convolution with strides into standard ONNX operators.

There may be no cells although there are rows, which Reshape cannot be told before opset 14: hence -1 for what is left.
Unique sorts the cells of the output, and gives the first position of every value: of the pairs (tap, cell) that rows reach
and those that are wanted in one list, the first position of a wanted one is that of the first row that reaches it.
"""

from __future__ import annotations

import math

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.sparse import _grids as grids
from trtsmith.importers.ops.sparse import _rulebook_onnx as parts

_NONE = [-1]


def expand(expansion: Expansion) -> tuple[Value, ...]:
    """The cells that taps reach in order, without repetition, and the first row of each tap and cell."""
    g = Builder(expansion.opset)
    fields = dict(expansion.fields)
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
