"""Expands multi-scale deformable attention into standard ONNX operators, from either form of its samples."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion

AXES_INPUT_OPSET = 13
"""First opset in which ReduceSum's axes are an input."""


def expand(expansion: Expansion) -> str:
    """The operator whose locations and weights are inputs."""
    return _body(expansion, "", _FROM_LOCATIONS)


def expand_from_offsets(expansion: Expansion) -> str:
    """The operator that has reference points, offsets and logits."""
    return _body(expansion, _SOFTMAX, _FROM_OFFSETS)


def _body(expansion: Expansion, weights: str, positions: str) -> str:
    """Flat gathers with computed row indices: one graph for any number of levels, in any order of storage.

    Values become rows [N*M*S + 1, D], the last of which is zero. Each of the four corners of every sample is gathered
    by row; a corner outside its level, or of a location that is NaN, has weight zero and takes the last row.
    Samples are weighted and summed by Mul and ReduceSum, not by MatMul: products of one row each are slow in TensorRT,
    and TensorRT-RTX 1.6.1 fails to run them at 22,223 queries of a dynamic batch.

    weights: statements that make attention_weights; positions: those that make x and y, in pixels.
    """
    corners = (("left", "top"), ("right", "top"), ("left", "bottom"), ("right", "bottom"))
    body = [_CONSTANTS, weights, _SIZES, positions, _CELLS]
    over_points = "<axes = [2], keepdims = 0> ({})"
    if expansion.opset >= AXES_INPUT_OPSET:
        over_points = "<keepdims = 0> ({}, two)"
    for k, (column, row) in enumerate(corners):
        body.append(
            f"""
in_x_low_{k} = Greater ({column}, minus_half)
in_x_high_{k} = Less ({column}, right_limit)
in_y_low_{k} = Greater ({row}, minus_half)
in_y_high_{k} = Less ({row}, bottom_limit)
in_x_{k} = And (in_x_low_{k}, in_x_high_{k})
in_y_{k} = And (in_y_low_{k}, in_y_high_{k})
in_level_{k} = And (in_x_{k}, in_y_{k})
column_safe_{k} = Where (in_level_{k}, {column}, nought)
row_safe_{k} = Where (in_level_{k}, {row}, nought)
column_int_{k} = Cast <to = 7> (column_safe_{k})
row_int_{k} = Cast <to = 7> (row_safe_{k})
row_start_{k} = Mul (row_int_{k}, widths_int)
cell_{k} = Add (row_start_{k}, column_int_{k})
key_{k} = Add (cell_{k}, starts)
key_low_{k} = Greater (key_{k}, minus)
key_high_{k} = Less (key_{k}, s)
key_ok_{k} = And (key_low_{k}, key_high_{k})
inside_{k} = And (in_level_{k}, key_ok_{k})
row_of_value_{k} = Add (key_{k}, first_row)
index_{k} = Where (inside_{k}, row_of_value_{k}, nms)
bilinear_{k} = Mul (x_{column}, y_{row})
weighted_{k} = Mul (bilinear_{k}, weights)
share_{k} = Where (inside_{k}, weighted_{k}, nought)
share_row_{k} = Reshape (share_{k}, share_shape)
index_row_{k} = Reshape (index_{k}, index_shape)
corner_{k} = Gather <axis = 0> (rows, index_row_{k})
samples_{k} = Mul (corner_{k}, share_row_{k})
sum_{k} = ReduceSum {over_points.format(f"samples_{k}")}"""
        )
    body.append(
        """
sum_top = Add (sum_0, sum_1)
sum_bottom = Add (sum_2, sum_3)
sum = Add (sum_top, sum_bottom)
heads_first = Reshape (sum, heads_first_shape)
heads_inner = Transpose <perm = [0, 2, 1, 3]> (heads_first)
output = Reshape (heads_inner, output_shape)"""
    )
    return "\n".join(body)


_CONSTANTS = """
zero = Constant <value = int64[1] {0}> ()
one = Constant <value = int64[1] {1}> ()
two = Constant <value = int64[1] {2}> ()
three = Constant <value = int64[1] {3}> ()
four = Constant <value = int64[1] {4}> ()
five = Constant <value = int64[1] {5}> ()
minus = Constant <value = int64[1] {-1}> ()
half = Constant <value = float {0.5}> ()
minus_half = Constant <value = float {-0.5}> ()
unit = Constant <value = float {1.0}> ()
nought = Constant <value = float {0.0}> ()"""

_SIZES = """
value_shape = Shape (value)
n = Slice (value_shape, zero, one)
s = Slice (value_shape, one, two)
m = Slice (value_shape, two, three)
d = Slice (value_shape, three, four)
weights_shape = Shape (attention_weights)
q = Slice (weights_shape, one, two)
l = Slice (weights_shape, three, four)
p = Slice (weights_shape, four, five)
lp = Mul (l, p)
md = Mul (m, d)
nm = Mul (n, m)
nms = Mul (nm, s)
sample_shape = Concat <axis = 0> (nm, q, l, p)
samples_xy_shape = Concat <axis = 0> (nm, q, l, p, two)
share_shape = Concat <axis = 0> (nm, q, lp, one)
index_shape = Concat <axis = 0> (nm, q, lp)
heads_first_shape = Concat <axis = 0> (n, m, q, d)
output_shape = Concat <axis = 0> (n, q, md)
rows_shape = Concat <axis = 0> (nms, d)
heads_of_value = Transpose <perm = [0, 2, 1, 3]> (value)
value_rows = Reshape (heads_of_value, rows_shape)
zero_row_shape = Concat <axis = 0> (one, d)
zero_row = Expand (nought, zero_row_shape)
rows = Concat <axis = 0> (value_rows, zero_row)
zero_scalar = Squeeze (zero)
one_scalar = Squeeze (one)
nm_scalar = Squeeze (nm)
head_index = Range (zero_scalar, nm_scalar, one_scalar)
head_row = Mul (head_index, s)
first_row_shape = Concat <axis = 0> (nm, one, one, one)
first_row = Reshape (head_row, first_row_shape)
level_shape = Concat <axis = 0> (one, one, l, one)
spatial = Cast <to = 7> (spatial_shapes)
starts_flat = Cast <to = 7> (level_start_index)
starts = Reshape (starts_flat, level_shape)
heights_column = Slice (spatial, zero, one, one)
widths_column = Slice (spatial, one, two, one)
heights_int = Reshape (heights_column, level_shape)
widths_int = Reshape (widths_column, level_shape)
heights = Cast <to = 1> (heights_int)
widths = Cast <to = 1> (widths_int)
right_limit = Sub (widths, half)
bottom_limit = Sub (heights, half)
weights_by_head = Transpose <perm = [0, 2, 1, 3, 4]> (attention_weights)
weights = Reshape (weights_by_head, sample_shape)"""

_FROM_LOCATIONS = """
locations_by_head = Transpose <perm = [0, 2, 1, 3, 4, 5]> (sampling_locations)
xy = Reshape (locations_by_head, samples_xy_shape)
x_column = Slice (xy, zero, one, four)
y_column = Slice (xy, one, two, four)
x_unit = Reshape (x_column, sample_shape)
y_unit = Reshape (y_column, sample_shape)
x_scaled = Mul (x_unit, widths)
y_scaled = Mul (y_unit, heights)
x = Sub (x_scaled, half)
y = Sub (y_scaled, half)"""

_SOFTMAX = """
batch_shape = Shape (value)
batch = Slice (batch_shape, zero, one)
given_shape = Shape (attention_logits)
given = Slice (given_shape, zero, one)
none_given = Equal (given, zero)
divisor = Where (none_given, one, given)
quotient = Div (batch, divisor)
no_quotient = Equal (quotient, zero)
shared_by = Where (no_quotient, one, quotient)
batch_scalar = Squeeze (batch)
first_entry = Squeeze (zero)
next_entry = Squeeze (one)
entries = Range (first_entry, batch_scalar, next_entry)
given_entries = Div (entries, shared_by)
logits = Gather <axis = 0> (attention_logits, given_entries)
logits_shape = Shape (logits)
logits_heads = Slice (logits_shape, zero, three)
logits_levels = Slice (logits_shape, three, four)
logits_points = Slice (logits_shape, four, five)
logits_samples = Mul (logits_levels, logits_points)
logits_flat_shape = Concat <axis = 0> (logits_heads, logits_samples)
logits_flat = Reshape (logits, logits_flat_shape)
softmax = Softmax <axis = -1> (logits_flat)
attention_weights = Reshape (softmax, logits_shape)"""

_FROM_OFFSETS = """
six = Constant <value = int64[1] {6}> ()
reference_shape = Shape (reference_points)
reference_batch = Slice (reference_shape, zero, one)
reference_levels = Slice (reference_shape, two, three)
reference_groups = Slice (reference_shape, three, four)
reference_numbers = Slice (reference_shape, four, five)
turns = Div (p, reference_groups)
references_shape = Concat <axis = 0> (reference_batch, one, q, reference_levels, one, reference_groups, reference_numbers)
references = Reshape (reference_points, references_shape)
offsets_shape = Concat <axis = 0> (n, m, q, l, turns, reference_groups, two)
offsets_of_all = Gather <axis = 0> (sampling_offsets, given_entries)
offsets_by_head = Transpose <perm = [0, 2, 1, 3, 4, 5]> (offsets_of_all)
offsets = Reshape (offsets_by_head, offsets_shape)
x_offset = Slice (offsets, zero, one, six)
y_offset = Slice (offsets, one, two, six)
x_reference = Slice (references, zero, one, six)
y_reference = Slice (references, one, two, six)
all_sizes_shape = Concat <axis = 0> (one, one, one, l, one, one, one)
all_widths = Reshape (widths, all_sizes_shape)
all_heights = Reshape (heights, all_sizes_shape)
is_box = Equal (reference_numbers, four)
twice = Concat <axis = 6> (references, references)
x_extent = Slice (twice, two, three, six)
y_extent = Slice (twice, three, four, six)
points = Cast <to = 1> (p)
share_of_extent = Div (half, points)
x_pixels = Mul (x_extent, all_widths)
y_pixels = Mul (y_extent, all_heights)
x_share = Mul (x_pixels, share_of_extent)
y_share = Mul (y_pixels, share_of_extent)
x_unit = Where (is_box, x_share, unit)
y_unit = Where (is_box, y_share, unit)
x_away = Mul (x_offset, x_unit)
y_away = Mul (y_offset, y_unit)
x_point = Mul (x_reference, all_widths)
y_point = Mul (y_reference, all_heights)
x_origin = Sub (x_point, half)
y_origin = Sub (y_point, half)
x_all = Add (x_origin, x_away)
y_all = Add (y_origin, y_away)
x = Reshape (x_all, sample_shape)
y = Reshape (y_all, sample_shape)"""

_CELLS = """
left = Floor (x)
top = Floor (y)
right = Add (left, unit)
bottom = Add (top, unit)
x_right = Sub (x, left)
y_bottom = Sub (y, top)
x_left = Sub (unit, x_right)
y_top = Sub (unit, y_bottom)"""
