"""Expands grouped deformable sampling into standard ONNX operators."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.sampling._grouped_deformable_sampling_geometry import reach, taps

AXES_INPUT_OPSET = 13
"""First opset in which ReduceSum's axes are an input."""


def expand(expansion: Expansion) -> str:
    """One graph for any batch, height and width; fields are inlined.

    The input becomes rows [N*H*W*G + 1, C/G], the last of which is zero. Each of the four corners of every sample is
    gathered by row; a corner outside the input, or of a position that is NaN, has weight zero and takes the last row.
    """
    body = [_constants(expansion), _SIZES]
    body.append(_APART if "mask" in expansion.present else _TOGETHER)
    body.append(_POSITIONS)
    over_taps = "<axes = [3], keepdims = 0> ({})"
    if expansion.opset >= AXES_INPUT_OPSET:
        over_taps = "<keepdims = 0> ({}, three)"
    corners = (("up", "left_of"), ("up", "right_of"), ("down", "left_of"), ("down", "right_of"))
    for k, (row, column) in enumerate(corners):
        corner = _CORNER.replace("{k}", str(k)).replace("{row}", row).replace("{column}", column)
        body.append(f"{corner}\nsum_{k} = ReduceSum {over_taps.format(f'samples_{k}')}")
    body.append(_SUM)
    return "\n".join(body)


def _constants(expansion: Expansion) -> str:
    fields = expansion.fields
    scale, places = fields["offset_scale"], taps(fields)
    numbers = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "minus": -1}
    numbers |= {"g": fields["groups"], "k": len(places)}
    numbers |= {"k2": 2 * len(places), "k3": 3 * len(places), "gk3": 3 * fields["groups"] * len(places)}
    lines = [f"{name} = Constant <value = int64[1] {{{value}}}> ()" for name, value in numbers.items()]
    for name, value in (
        ("half", 0.5),
        ("minus_half", -0.5),
        ("unit", 1.0),
        ("nought", 0.0),
        ("scale", scale),
    ):
        lines.append(f"{name} = Constant <value = float {{{float(value)!r}}}> ()")
    for axis, name in enumerate("yx"):
        middle = reach(fields, axis) // 2
        steps = [scale * (place[axis] * fields["dilation"][axis] - middle) for place in places]
        values = ", ".join(repr(float(step)) for step in steps)
        lines.append(f"tap_{name} = Constant <value = float[{len(steps)}] {{{values}}}> ()")
        lines.append(f"stride_{name} = Constant <value = int64 {{{fields['stride'][axis]}}}> ()")
        lines.append(f"start_{name} = Constant <value = int64 {{{middle - fields['padding'][axis]}}}> ()")
    return "\n".join(lines)


_SIZES = """
x_shape = Shape (x)
n = Slice (x_shape, zero, one)
h = Slice (x_shape, one, two)
w = Slice (x_shape, two, three)
c = Slice (x_shape, three, four)
offset_shape = Shape (offset)
ho = Slice (offset_shape, one, two)
wo = Slice (offset_shape, two, three)
p = Mul (ho, wo)
cells = Mul (h, w)
all_cells = Mul (n, cells)
all_rows = Mul (all_cells, g)
d = Div (c, g)
rows_shape = Concat <axis = 0> (all_rows, d)
value_rows = Reshape (x, rows_shape)
zero_row_shape = Concat <axis = 0> (one, d)
zero_row = Expand (nought, zero_row_shape)
rows = Concat <axis = 0> (value_rows, zero_row)
sample_shape = Concat <axis = 0> (n, p, g, k)
share_shape = Concat <axis = 0> (n, p, g, k, one)
pairs_shape = Concat <axis = 0> (n, p, g, k, two)"""

_APART = """
pairs = Reshape (offset, pairs_shape)
weights = Reshape (mask, sample_shape)"""

_TOGETHER = """
filled = Slice (offset, zero, gk3, three)
grouped_shape = Concat <axis = 0> (n, p, g, k3)
grouped = Reshape (filled, grouped_shape)
grouped_pairs = Slice (grouped, zero, k2, three)
pairs = Reshape (grouped_pairs, pairs_shape)
weights = Slice (grouped, k2, k3, three)"""

_POSITIONS = """
pairs_x = Slice (pairs, zero, one, four)
pairs_y = Slice (pairs, one, two, four)
offset_x = Reshape (pairs_x, sample_shape)
offset_y = Reshape (pairs_y, sample_shape)
scaled_x = Mul (offset_x, scale)
scaled_y = Mul (offset_y, scale)
moved_x = Add (scaled_x, tap_x)
moved_y = Add (scaled_y, tap_y)
zero_scalar = Squeeze (zero)
one_scalar = Squeeze (one)
ho_scalar = Squeeze (ho)
wo_scalar = Squeeze (wo)
out_row = Range (zero_scalar, ho_scalar, one_scalar)
out_column = Range (zero_scalar, wo_scalar, one_scalar)
out_row_strided = Mul (out_row, stride_y)
out_column_strided = Mul (out_column, stride_x)
origin_row = Add (out_row_strided, start_y)
origin_column = Add (out_column_strided, start_x)
origin_row_shape = Concat <axis = 0> (ho, one)
origin_column_shape = Concat <axis = 0> (one, wo)
plane_shape = Concat <axis = 0> (ho, wo)
origin_rows = Reshape (origin_row, origin_row_shape)
origin_columns = Reshape (origin_column, origin_column_shape)
origin_y_int = Expand (origin_rows, plane_shape)
origin_x_int = Expand (origin_columns, plane_shape)
origin_y_float = Cast <to = 1> (origin_y_int)
origin_x_float = Cast <to = 1> (origin_x_int)
origin_shape = Concat <axis = 0> (one, p, one, one)
origin_y = Reshape (origin_y_float, origin_shape)
origin_x = Reshape (origin_x_float, origin_shape)
position_y = Add (moved_y, origin_y)
position_x = Add (moved_x, origin_x)
up = Floor (position_y)
left_of = Floor (position_x)
down = Add (up, unit)
right_of = Add (left_of, unit)
share_down = Sub (position_y, up)
share_right_of = Sub (position_x, left_of)
share_up = Sub (unit, share_down)
share_left_of = Sub (unit, share_right_of)
h_float = Cast <to = 1> (h)
w_float = Cast <to = 1> (w)
bottom_limit = Sub (h_float, half)
right_limit = Sub (w_float, half)
n_scalar = Squeeze (n)
g_scalar = Squeeze (g)
image = Range (zero_scalar, n_scalar, one_scalar)
group = Range (zero_scalar, g_scalar, one_scalar)
image_cell = Mul (image, cells)
first_cell_shape = Concat <axis = 0> (n, one, one, one)
first_cell = Reshape (image_cell, first_cell_shape)
group_shape = Concat <axis = 0> (one, one, g, one)
group_row = Reshape (group, group_shape)"""

_CORNER = """
y_low_{k} = Greater ({row}, minus_half)
y_high_{k} = Less ({row}, bottom_limit)
x_low_{k} = Greater ({column}, minus_half)
x_high_{k} = Less ({column}, right_limit)
y_ok_{k} = And (y_low_{k}, y_high_{k})
x_ok_{k} = And (x_low_{k}, x_high_{k})
inside_{k} = And (y_ok_{k}, x_ok_{k})
row_safe_{k} = Where (inside_{k}, {row}, nought)
column_safe_{k} = Where (inside_{k}, {column}, nought)
row_int_{k} = Cast <to = 7> (row_safe_{k})
column_int_{k} = Cast <to = 7> (column_safe_{k})
row_start_{k} = Mul (row_int_{k}, w)
cell_{k} = Add (row_start_{k}, column_int_{k})
cell_of_x_{k} = Add (cell_{k}, first_cell)
cell_row_{k} = Mul (cell_of_x_{k}, g)
row_of_x_{k} = Add (cell_row_{k}, group_row)
index_{k} = Where (inside_{k}, row_of_x_{k}, all_rows)
bilinear_{k} = Mul (share_{row}, share_{column})
weighted_{k} = Mul (bilinear_{k}, weights)
weight_{k} = Where (inside_{k}, weighted_{k}, nought)
weight_rows_{k} = Reshape (weight_{k}, share_shape)
values_{k} = Gather <axis = 0> (rows, index_{k})
samples_{k} = Mul (values_{k}, weight_rows_{k})"""

_SUM = """
sum_up = Add (sum_0, sum_1)
sum_down = Add (sum_2, sum_3)
sum = Add (sum_up, sum_down)
output_shape = Concat <axis = 0> (n, ho, wo, c)
output = Reshape (sum, output_shape)"""
