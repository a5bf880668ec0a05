"""Expands the rulebook of a submanifold convolution into standard ONNX operators.

Unique gives the first position of every value, so that of rows and wanted cells in one list, the first position of a
wanted cell is that of the row that has it.
"""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.sparse import _grids as grids
from trtsmith.importers.ops.sparse import _rulebook_onnx as parts

_OUTSIDE, _LOST = -2, -1


def expand(expansion: Expansion) -> Value:
    """The number of the cell that each tap reads, for each row, looked up among those of the rows."""
    g = Builder(expansion.opset)
    fields = expansion.fields
    sizes = fields["spatial_shape"]
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
