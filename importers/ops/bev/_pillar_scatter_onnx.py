"""Expands the layout of pillars on their grid into standard ONNX operators."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.bev._cells_onnx import last_owners

_CELLS = """
i0 = Constant <value = int64[1] {0}> ()
i1 = Constant <value = int64[1] {1}> ()
i2 = Constant <value = int64[1] {2}> ()
i3 = Constant <value = int64[1] {3}> ()
zero = Constant <value = int64 {0}> ()
one = Constant <value = int64 {1}> ()
nought = Constant <value = float[1] {0}> ()
sizes = Shape (features)
frames = Slice (sizes, i0, i1)
pillars = Slice (sizes, i1, i2)
channels = Slice (sizes, i2, i3)
places = Slice (sizes, i0, i2)
positions = Cast <to = 7> (coords)
row_number = Constant <value = int64 {2}> ()
column_number = Constant <value = int64 {3}> ()
row = Gather <axis = 2> (positions, row_number)
column = Gather <axis = 2> (positions, column_number)
frames_end = Squeeze (frames)
pillars_end = Squeeze (pillars)
frame_numbers = Range (zero, frames_end, one)
pillar_numbers = Range (zero, pillars_end, one)
frame_column = Concat <axis = 0> (frames, i1)
frame = Reshape (frame_numbers, frame_column)
counts_wide = Cast <to = 7> (counts)
counts_column = Reshape (counts_wide, frame_column)
counted = Less (pillar_numbers, counts_column)
row_negative = Less (row, i0)
row_before_end = Less (row, height)
column_negative = Less (column, i0)
column_before_end = Less (column, width)
some_negative = Or (row_negative, column_negative)
none_negative = Not (some_negative)
before_end = And (row_before_end, column_before_end)
inside = And (none_negative, before_end)
laid_out = And (inside, counted)
frame_rows = Mul (frame, height)
rows = Add (frame_rows, row)
row_cells = Mul (rows, width)
cell_given = Add (row_cells, column)
cells = Mul (frames, frame_cells)
cell_of_each = Where (laid_out, cell_given, cells)
writers = Mul (frames, pillars)
cell = Reshape (cell_of_each, writers)
"""
"""The cell of each pillar of all frames, and `cells`, their number, for a pillar that does not count or is outside."""

_GRID = """
table_shape = Concat <axis = 0> (writers, channels)
table_rows = Reshape (features, table_shape)
zero_shape = Concat <axis = 0> (i1, channels)
zero_row = Expand (nought, zero_shape)
table = Concat <axis = 0> (zero_row, table_rows)
gathered = Gather <axis = 0> (table, owner)
grid_shape = Concat <axis = 0> (frames, height, width, channels)
grid = Reshape (gathered, grid_shape)
output = Transpose <perm = [0, 3, 1, 2]> (grid)
"""
"""Each cell's features from the last pillar that it has, and zeros where it has none."""


def expand_pillar_scatter(expansion: Expansion) -> str:
    """The last pillar of every cell, and its features gathered from there."""
    height, width = expansion.fields["output_height"], expansion.fields["output_width"]
    return f"""
height = Constant <value = int64[1] {{{height}}}> ()
width = Constant <value = int64[1] {{{width}}}> ()
frame_cells = Constant <value = int64[1] {{{height * width}}}> ()
{_CELLS}{last_owners(expansion.opset)}{_GRID}"""
