"""Expands deformable convolution into standard ONNX: columns by flat gathers, then a MatMul for each group."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> str:
    """One graph for any batch, height and width; fields are inlined.

    The input becomes rows [N*OG*H*W + 1, C/OG], the last of which is zero. Each of the four corners of every sample is
    gathered by row; a corner outside the input, or of a position that is NaN, has weight zero and takes the last row.
    """
    fields = expansion.fields
    names = ("stride_h", "stride_w", "top", "left", "dilation_h", "dilation_w", "groups", "og")
    values = (
        *fields["stride"],
        *fields["padding"][:2],
        *fields["dilation"],
        fields["groups"],
        fields["offset_groups"],
    )
    body = [
        f"{name} = Constant <value = int64[1] {{{value}}}> ()"
        for name, value in zip(names, values, strict=True)
    ]
    body.append(_POSITIONS)
    for k, (row, column) in enumerate(
        (("up", "left_of"), ("up", "right_of"), ("down", "left_of"), ("down", "right_of"))
    ):
        body.append(_CORNER.replace("{k}", str(k)).replace("{row}", row).replace("{column}", column))
    body.append(_SUM)
    if "mask" in expansion.present:
        body.append("mask_rows = Reshape (mask, share_shape)\nmasked = Mul (sampled, mask_rows)")
    else:
        body.append("masked = Identity (sampled)")
    body.append(_PRODUCT)
    if "bias" in expansion.present:
        body.append(
            "bias_shape = Concat <axis = 0> (o, one, one)\nbias_plane = Reshape (bias, bias_shape)\n"
            "output = Add (convolved, bias_plane)"
        )
    else:
        body.append("output = Identity (convolved)")
    return "\n".join(body)


_POSITIONS = """
zero = Constant <value = int64[1] {0}> ()
one = Constant <value = int64[1] {1}> ()
two = Constant <value = int64[1] {2}> ()
three = Constant <value = int64[1] {3}> ()
four = Constant <value = int64[1] {4}> ()
half = Constant <value = float {0.5}> ()
minus_half = Constant <value = float {-0.5}> ()
unit = Constant <value = float {1.0}> ()
nought = Constant <value = float {0.0}> ()
zero_scalar = Squeeze (zero)
one_scalar = Squeeze (one)
x_shape = Shape (x)
n = Slice (x_shape, zero, one)
c = Slice (x_shape, one, two)
h = Slice (x_shape, two, three)
w = Slice (x_shape, three, four)
weight_shape = Shape (weight)
o = Slice (weight_shape, zero, one)
kw = Slice (weight_shape, three, four)
kernel_shape = Slice (weight_shape, two, four)
offset_shape = Shape (offset)
ho = Slice (offset_shape, two, three)
wo = Slice (offset_shape, three, four)
out_size = Slice (offset_shape, two, four)
k = ReduceProd <keepdims = 1> (kernel_shape)
cells = Mul (h, w)
area = Mul (ho, wo)
ng = Mul (n, og)
all_cells = Mul (ng, cells)
group_channels = Div (c, og)

grouped_shape = Concat <axis = 0> (ng, group_channels, cells)
grouped = Reshape (x, grouped_shape)
channels_last = Transpose <perm = [0, 2, 1]> (grouped)
rows_shape = Concat <axis = 0> (all_cells, group_channels)
value_rows = Reshape (channels_last, rows_shape)
zero_row_shape = Concat <axis = 0> (one, group_channels)
zero_row = Expand (nought, zero_row_shape)
rows = Concat <axis = 0> (value_rows, zero_row)
ng_scalar = Squeeze (ng)
group_index = Range (zero_scalar, ng_scalar, one_scalar)
group_row = Mul (group_index, cells)
first_row_shape = Concat <axis = 0> (ng, one, one, one)
first_row = Reshape (group_row, first_row_shape)

k_scalar = Squeeze (k)
tap = Range (zero_scalar, k_scalar, one_scalar)
tap_row = Div (tap, kw)
tap_row_start = Mul (tap_row, kw)
tap_column = Sub (tap, tap_row_start)
tap_shape = Concat <axis = 0> (k, one, one)
tap_y_flat = Mul (tap_row, dilation_h)
tap_x_flat = Mul (tap_column, dilation_w)
tap_y = Reshape (tap_y_flat, tap_shape)
tap_x = Reshape (tap_x_flat, tap_shape)
ho_scalar = Squeeze (ho)
wo_scalar = Squeeze (wo)
out_row = Range (zero_scalar, ho_scalar, one_scalar)
out_column = Range (zero_scalar, wo_scalar, one_scalar)
out_y_strided = Mul (out_row, stride_h)
out_x_strided = Mul (out_column, stride_w)
out_y_flat = Sub (out_y_strided, top)
out_x_flat = Sub (out_x_strided, left)
out_y_shape = Concat <axis = 0> (one, ho, one)
out_x_shape = Concat <axis = 0> (one, one, wo)
out_y = Reshape (out_y_flat, out_y_shape)
out_x = Reshape (out_x_flat, out_x_shape)
base_y_int = Add (tap_y, out_y)
base_x_int = Add (tap_x, out_x)
base_y = Cast <to = 1> (base_y_int)
base_x = Cast <to = 1> (base_x_int)

moves_shape = Concat <axis = 0> (ng, k, two, ho, wo)
plane_shape = Concat <axis = 0> (ng, k, ho, wo)
share_shape = Concat <axis = 0> (ng, k, ho, wo, one)
moves = Reshape (offset, moves_shape)
moves_y = Slice (moves, zero, one, two)
moves_x = Slice (moves, one, two, two)
dy = Reshape (moves_y, plane_shape)
dx = Reshape (moves_x, plane_shape)
position_y = Add (dy, base_y)
position_x = Add (dx, base_x)
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
right_limit = Sub (w_float, half)"""

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
row_of_x_{k} = Add (cell_{k}, first_row)
index_{k} = Where (inside_{k}, row_of_x_{k}, all_cells)
bilinear_{k} = Mul (share_{row}, share_{column})
weight_{k} = Where (inside_{k}, bilinear_{k}, nought)
weight_rows_{k} = Reshape (weight_{k}, share_shape)
values_{k} = Gather <axis = 0> (rows, index_{k})
corner_{k} = Mul (values_{k}, weight_rows_{k})"""

_SUM = """
sum_up = Add (corner_0, corner_1)
sum_down = Add (corner_2, corner_3)
sampled = Add (sum_up, sum_down)"""

_PRODUCT = """
samples_shape = Concat <axis = 0> (n, og, k, area, group_channels)
samples = Reshape (masked, samples_shape)
channels_first = Transpose <perm = [1, 4, 2, 0, 3]> (samples)
group_columns = Div (c, groups)
depth = Mul (group_columns, k)
all_area = Mul (n, area)
columns_shape = Concat <axis = 0> (groups, depth, all_area)
columns = Reshape (channels_first, columns_shape)
group_outputs = Div (o, groups)
kernel_rows_shape = Concat <axis = 0> (groups, group_outputs, depth)
kernel_rows = Reshape (weight, kernel_rows_shape)
product = MatMul (kernel_rows, columns)
planes_shape = Concat <axis = 0> (o, n, area)
planes = Reshape (product, planes_shape)
batch_first = Transpose <perm = [1, 0, 2]> (planes)
output_shape = Concat <axis = 0> (n, o, out_size)
convolved = Reshape (batch_first, output_shape)"""
