"""NonMaxSuppression in other operators of ONNX: one Loop takes the best box of every image and class at a time.

Boxes that no class may take are left out before. All arithmetic is that of ONNX's own operator, in float32: corners, areas,
and intersection over union, so that no box is on the other side of a threshold.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> str:
    above = _ABOVE if "score_threshold" in expansion.present else "candidates = Equal (scores, scores)"
    corners = _CENTRES if expansion.fields["center_point_box"] else _CORNERS
    return _SETUP.format(most=expansion.fields["most"]) + above + WITHOUT_OTHERS + corners + _LOOP + ROWS


_SETUP = """
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
two = Constant <value = int64[1] {{2}}> ()
three = Constant <value = int64[1] {{3}}> ()
minus_one = Constant <value = int64[1] {{-1}}> ()
none = Constant <value = int64 {{0}}> ()
unit = Constant <value = int64 {{1}}> ()
most_ever = Constant <value = int64[1] {{{most}}}> ()
nought = Constant <value = float {{0.0}}> ()
go = Constant <value = bool {{1}}> ()
"""

_ABOVE = "candidates = Greater (scores, score_threshold)"

WITHOUT_OTHERS = """
scores_shape = Shape (scores)
images = Slice (scores_shape, zero, one)
classes = Slice (scores_shape, one, two)
rows = Mul (images, classes)
all_boxes = Slice (scores_shape, two, three)
table_shape = Concat <axis = 0> (rows, all_boxes)
table = Reshape (candidates, table_shape)
numbers = Cast <to = 7> (table)
padding_shape = Concat <axis = 0> (one, all_boxes)
padding = Expand (none, padding_shape)
padded = Concat <axis = 0> (numbers, padding)
first_taken = ArgMax <axis = 0, keepdims = 1> (padded)
taken = GatherElements <axis = 0> (padded, first_taken)
taken_row = Reshape (taken, minus_one)
taken_positions = NonZero (taken_row)
kept = Reshape (taken_positions, minus_one)
left = Gather <axis = 2> (candidates, kept)
kept_scores = Gather <axis = 2> (scores, kept)
kept_boxes = Gather <axis = 1> (boxes, kept)
boxes_left = Shape (kept)"""
"""The boxes that are a candidate of some class; a row of zeros is added for models without classes."""

_CORNERS = """
first_y = Gather <axis = 2> (kept_boxes, zero)
first_x = Gather <axis = 2> (kept_boxes, one)
second_y = Gather <axis = 2> (kept_boxes, two)
second_x = Gather <axis = 2> (kept_boxes, three)
low_y = Min (first_y, second_y)
low_x = Min (first_x, second_x)
high_y = Max (first_y, second_y)
high_x = Max (first_x, second_x)"""

_CENTRES = """
half = Constant <value = float {2.0}> ()
centre_x = Gather <axis = 2> (kept_boxes, zero)
centre_y = Gather <axis = 2> (kept_boxes, one)
width = Gather <axis = 2> (kept_boxes, two)
height = Gather <axis = 2> (kept_boxes, three)
half_width = Div (width, half)
half_height = Div (height, half)
low_x = Sub (centre_x, half_width)
low_y = Sub (centre_y, half_height)
high_x = Add (centre_x, half_width)
high_y = Add (centre_y, half_height)"""

_LOOP = """
side_y = Sub (high_y, low_y)
side_x = Sub (high_x, low_x)
area_given = Mul (side_y, side_x)
numbers_sum = Sum (low_y, low_x, high_y, high_x)
no_numbers = IsNaN (numbers_sum)
area_column = Where (no_numbers, nought, area_given)
y0 = Transpose <perm = [0, 2, 1]> (low_y)
x0 = Transpose <perm = [0, 2, 1]> (low_x)
y1 = Transpose <perm = [0, 2, 1]> (high_y)
x1 = Transpose <perm = [0, 2, 1]> (high_x)
area = Transpose <perm = [0, 2, 1]> (area_column)
y0_list = Reshape (low_y, minus_one)
x0_list = Reshape (low_x, minus_one)
y1_list = Reshape (high_y, minus_one)
x1_list = Reshape (high_x, minus_one)
area_list = Reshape (area_column, minus_one)
images_scalar = Squeeze (images)
boxes_scalar = Squeeze (boxes_left)
image_numbers = Range (none, images_scalar, unit)
first_boxes = Mul (image_numbers, boxes_scalar)
image_shape = Concat <axis = 0> (images, one, one)
first_box = Reshape (first_boxes, image_shape)
box_numbers = Range (none, boxes_scalar, unit)
lowest = Log (nought)
bounds = Concat <axis = 0> (max_output_boxes_per_class, most_ever, boxes_left)
wanted, which_bound = TopK <axis = 0, largest = 0> (bounds, one)
wanted_or_none = Concat <axis = 0> (wanted, zero)
steps, which_steps = TopK <axis = 0> (wanted_or_none, one)
steps_scalar = Squeeze (steps)
left_behind, bests, valids = Loop <body = take_best (int64 i, bool keep, bool[B, C, n] open)
    => (bool go_on, bool[B, C, n] open_next, int64[B, C, k] best, bool[B, C, k] valid) {
  zero_float = Constant <value = float {0.0}> ()
  only_open = Where (open, kept_scores, lowest)
  top = ArgMax <axis = 2, keepdims = 1> (only_open)
  top_score = GatherElements <axis = 2> (only_open, top)
  as_good = Equal (kept_scores, top_score)
  is_best = And (as_good, open)
  is_best_number = Cast <to = 6> (is_best)
  best = ArgMax <axis = 2, keepdims = 1> (is_best_number)
  valid = GatherElements <axis = 2> (open, best)
  place = Add (best, first_box)
  best_y0 = Gather <axis = 0> (y0_list, place)
  best_x0 = Gather <axis = 0> (x0_list, place)
  best_y1 = Gather <axis = 0> (y1_list, place)
  best_x1 = Gather <axis = 0> (x1_list, place)
  best_area = Gather <axis = 0> (area_list, place)
  inner_y0 = Max (y0, best_y0)
  inner_x0 = Max (x0, best_x0)
  inner_y1 = Min (y1, best_y1)
  inner_x1 = Min (x1, best_x1)
  common_y = Sub (inner_y1, inner_y0)
  common_x = Sub (inner_x1, inner_x0)
  common = Mul (common_y, common_x)
  both = Add (area, best_area)
  either = Sub (both, common)
  share = Div (common, either)
  overlaps = Greater (share, iou_threshold)
  real_y = Greater (common_y, zero_float)
  real_x = Greater (common_x, zero_float)
  real_common = Greater (common, zero_float)
  real_area = Greater (area, zero_float)
  real_best = Greater (best_area, zero_float)
  real_either = Greater (either, zero_float)
  real_sides = And (real_y, real_x)
  real_areas = And (real_area, real_best)
  real_overlap = And (real_common, real_either)
  real_boxes = And (real_sides, real_areas)
  real = And (real_boxes, real_overlap)
  over = And (overlaps, real)
  itself = Equal (box_numbers, best)
  gone = Or (over, itself)
  stays = Not (gone)
  open_next = And (open, stays)
  open_number = Cast <to = 6> (open_next)
  any_open = ReduceMax <keepdims = 0> (open_number)
  go_on = Cast <to = 9> (any_open)
}> (steps_scalar, go, left)"""
"""Takes boxes in turn. A box of which a corner is no number, or that has no end, has no area here, and so overlaps none."""

ROWS = """
flags_in_order = Transpose <perm = [1, 2, 0, 3]> (valids)
chosen_in_order = Transpose <perm = [1, 2, 0, 3]> (bests)
places = NonZero (flags_in_order)
pairs = Slice (places, zero, two)
flat_flags = Reshape (flags_in_order, minus_one)
flat_chosen = Reshape (chosen_in_order, minus_one)
chosen_boxes = Compress <axis = 0> (flat_chosen, flat_flags)
numbers_of_boxes = Gather <axis = 0> (kept, chosen_boxes)
line_shape = Constant <value = int64[2] {1, -1}> ()
third = Reshape (numbers_of_boxes, line_shape)
columns = Concat <axis = 0> (pairs, third)
selected = Transpose <perm = [1, 0]> (columns)
selected_shape = Shape (selected)
length = Gather <axis = 0> (selected_shape, none)
count = Cast <to = 6> (length)"""
