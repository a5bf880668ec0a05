"""Finds, in standard ONNX operators, what was written last to each cell of a grid."""

from __future__ import annotations

SCATTER_MAX = 18
"""First opset whose ScatterElements keeps the largest of what is written to one place."""


def last_owners(opset: int) -> str:
    """From the cell of each of n writers, int64 `cell` [n], with the number of cells, int64[1] `cells`, for none.

    To `owner` [cells], the last writer of each cell, counted from 1, or 0; and `numbers` [n], 1 to n. Needs the int64[1]
    constants `i0` and `i1`. Before ScatterElements had a reduction, all but a cell's last writer are sent away first: which
    of several remains, ONNX does not say.
    """
    scatter = "ScatterElements <axis = 0> (no_owners, last_cell, numbers)"
    if opset >= SCATTER_MAX:
        scatter = 'ScatterElements <axis = 0, reduction = "max"> (no_owners, cell, numbers)'
    return f"""
writer_sizes = Shape (cell)
writers_end = Add (writer_sizes, i1)
number_one = Squeeze (i1)
number_end = Squeeze (writers_end)
numbers = Range (number_one, number_end, number_one)
{"" if opset >= SCATTER_MAX else _LAST}
cells_and_none = Add (cells, i1)
no_owners = Expand (i0, cells_and_none)
owners = {scatter}
owner = Slice (owners, i0, cells)
"""


_LAST = """
writer_column = Concat <axis = 0> (writer_sizes, i1)
cell_column = Reshape (cell, writer_column)
number_column = Reshape (numbers, writer_column)
same_cell = Equal (cell_column, cell)
later = Less (number_column, numbers)
overwrites = And (same_cell, later)
overwrites_number = Cast <to = 7> (overwrites)
overwrites_not = Expand (i0, writer_column)
overwrites_or_not = Concat <axis = 1> (overwrites_not, overwrites_number)
overwritten_number = ReduceMax <axes = [1], keepdims = 0> (overwrites_or_not)
overwritten = Cast <to = 9> (overwritten_number)
last_cell = Where (overwritten, cells, cell)
"""
