"""Expands the rulebook of a sparse convolution with strides into standard ONNX operators.

There may be no cells although there are rows, which Reshape cannot be told before opset 14: hence -1 for what is left.
Unique sorts the cells of the output, and gives the first position of every value: of the pairs (tap, cell) that rows reach
and those that are wanted in one list, the first position of a wanted one is that of the first row that reaches it.
"""

from __future__ import annotations

import math

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.sparse import _grids as grids
from trtsmith.importers.ops.sparse import _rulebook_onnx as parts

_CELLS = """
reached_or_none = Where (there, reached, none)
reached_size = Mul (taps, rows)
reached_list = Reshape (reached_or_none, all_left)
reached_and_none = Concat <axis = 0> (none, reached_list)
none_and_cells, d0, d1, d2 = Unique <sorted = 1> (reached_and_none)
cells = Slice (none_and_cells, i1, cells_end)
cells_size = Shape (cells)
length = Squeeze (cells_size)
count = Cast <to = 6> (length)
column_shape = Concat <axis = 0> (cells_size, i1)
"""

_PAIRS = """
tap_and_reached = Add (reached, tap_start)
tap_or_none = Where (there, tap_and_reached, none)
tap_list = Reshape (tap_or_none, all_left)
tap_and_cell = Add (cells, tap_start)
wanted_size = Mul (taps, cells_size)
wanted_list = Reshape (tap_and_cell, all_left)
all_keys = Concat <axis = 0> (tap_list, wanted_list, end_mark)
different, firsts, places_of, counts = Unique <sorted = 1> (all_keys)
first_of_each = Gather <axis = 0> (firsts, places_of)
wanted_end = Add (reached_size, wanted_size)
first_of_wanted = Slice (first_of_each, reached_size, wanted_end)
found = Less (first_of_wanted, reached_size)
no_rows = Equal (rows, i0)
divisor = Where (no_rows, i1, rows)
row_of_first = Mod (first_of_wanted, divisor)
row_or_none = Where (found, row_of_first, none)
list_of_pairs = Cast <to = 6> (row_or_none)
table_shape = Concat <axis = 0> (taps, all_left)
pairs = Reshape (list_of_pairs, table_shape)
"""


def _reach(
    fields: dict[str, tuple[int, ...]], numbers: list[tuple[int, ...]], number: int, before: str
) -> str:
    """`there_AXIS` and `cell_AXIS` [K, N]: whether a tap's cell of the output exists, and which it is along the axis."""
    axis, stride = parts.AXES[number], fields["stride"][number]
    shifts = [fields["padding"][number] - tap[number] * fields["dilation"][number] for tap in numbers]
    text = parts.constant(f"shift_{axis}", shifts) + parts.scalars(**{f"stride_{axis}": stride})
    text += f"""
reach_{axis} = Add ({axis}, shift_{axis})
cell_{axis} = Div (reach_{axis}, stride_{axis})
again_{axis} = Mul (cell_{axis}, stride_{axis})
whole_{axis} = Equal (again_{axis}, reach_{axis})
"""
    text += parts.within(f"within_{axis}", f"cell_{axis}", f"out_{axis}", f"cell_{axis}")
    return (
        text + f"met_{axis} = And (whole_{axis}, within_{axis})\nthere_{axis} = And ({before}, met_{axis})\n"
    )


def _coordinates(out: tuple[int, ...]) -> str:
    """`output_indices` from `cells`."""
    text, rest = "", "cells"
    for axis, size in reversed(list(zip(parts.AXES, out, strict=True))):
        text += parts.scalars(**{f"length_{axis}": max(size, 1)})
        text += f"place_{axis} = Mod ({rest}, length_{axis})\nrest_{axis} = Div ({rest}, length_{axis})\n"
        rest = f"rest_{axis}"
    for name in ("rest_z", *(f"place_{axis}" for axis in parts.AXES)):
        text += f"{name}_column = Reshape ({name}, column_shape)\n"
    names = ", ".join(f"{name}_column" for name in ("rest_z", "place_z", "place_y", "place_x"))
    return (
        text + f"wide_indices = Concat <axis = 1> ({names})\noutput_indices = Cast <to = 6> (wide_indices)\n"
    )


def expand(expansion: Expansion) -> str:
    """The cells that taps reach in order, without repetition, and the first row of each tap and cell."""
    fields = dict(expansion.fields)
    numbers, out = grids.numbers(fields["kernel_size"]), grids.output_shape(fields)
    every = fields["batch_size"] * math.prod(out)
    limit = fields["limit"] or 2**40
    text = parts.scalars(zero=0, out_z=out[0], out_y=out[1], out_x=out[2])
    text += parts.vectors(
        i0=0, i1=1, taps=len(numbers), end_mark=-2, none=-1, all_left=-1, cells_end=limit + 1
    )
    text += parts.constant("tap_start", [tap * every for tap in range(len(numbers))])
    text += parts.columns() + parts.valid_rows(fields["batch_size"], fields["spatial_shape"])
    before = "valid"
    for number, axis in enumerate(parts.AXES):
        text += _reach(fields, numbers, number, before)
        before = f"there_{axis}"
    text += f"there = Identity ({before})\n"
    text += parts.key("reached", "image", "cell_z", "cell_y", "cell_x", ("out_z", "out_y", "out_x"))
    return text + _CELLS + _coordinates(out) + _PAIRS
