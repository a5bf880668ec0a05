"""Expands the rulebook of a submanifold convolution into standard ONNX operators.

Unique gives the first position of every value, so that of rows and wanted cells in one list, the first position of a
wanted cell is that of the row that has it.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.sparse import _grids as grids
from trtsmith.importers.ops.sparse import _rulebook_onnx as parts

_FIND = """
wanted_keys = Where (there, wanted, outside)
table_shape = Concat <axis = 0> (taps, rows)
wanted_size = Mul (taps, rows)
wanted_list = Reshape (wanted_keys, wanted_size)
row_keys = Where (valid, row_key, lost)
all_keys = Concat <axis = 0> (row_keys, wanted_list, end_mark)
different, firsts, places_of, counts = Unique <sorted = 1> (all_keys)
first_of_each = Gather <axis = 0> (firsts, places_of)
wanted_end = Add (rows, wanted_size)
first_of_wanted = Slice (first_of_each, rows, wanted_end)
found = Less (first_of_wanted, rows)
row_or_none = Where (found, first_of_wanted, none)
list_of_pairs = Cast <to = 6> (row_or_none)
pairs = Reshape (list_of_pairs, table_shape)
"""


def expand(expansion: Expansion) -> str:
    """The number of the cell that each tap reads, for each row, looked up among those of the rows."""
    fields = expansion.fields
    numbers = grids.numbers(fields["kernel_size"])
    text = parts.scalars(zero=0, outside=-2, lost=-1)
    text += parts.vectors(i0=0, i1=1, taps=len(numbers), end_mark=-3, none=-1)
    text += parts.columns() + parts.valid_rows(fields["batch_size"], fields["spatial_shape"])
    sizes = tuple(f"size_{axis}" for axis in parts.AXES)
    text += parts.key("row_key", "image", "z", "y", "x", sizes)
    before = "valid"
    for number, axis in enumerate(parts.AXES):
        middle, dilation = fields["kernel_size"][number] // 2, fields["dilation"][number]
        text += parts.constant(f"shift_{axis}", [(tap[number] - middle) * dilation for tap in numbers])
        text += f"at_{axis} = Add ({axis}, shift_{axis})\n"
        text += parts.within(f"within_{axis}", f"at_{axis}", f"size_{axis}", f"at_{axis}")
        text += f"there_{axis} = And ({before}, within_{axis})\n"
        before = f"there_{axis}"
    text += f"there = Identity ({before})\n"
    return text + parts.key("wanted", "image", "at_z", "at_y", "at_x", sizes) + _FIND
