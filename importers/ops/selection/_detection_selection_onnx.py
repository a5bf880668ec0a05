"""Expands the selection of detections: a Loop takes the best candidate that is left of every image at a time.

Every score is one place of a list of its image, in the order that decides between equal scores. One more place, which no
step takes, makes lists of images without boxes long enough for ArgMax. All arithmetic is that of the kernel, in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Expansion, Fields


def expand(expansion: Expansion) -> str:
    fields = expansion.fields
    return "\n".join(
        (
            _constants(fields),
            _TABLES.format(order="[0, 2, 1, 3]" if fields["class_major"] else "[0, 1, 2, 3]"),
            _candidates(fields),
            _LIMITED.format(**_orders(fields)) if fields["topk"] > 0 else "open = Identity (wanted)",
            _CENTRES if fields["box_coding"] else _CORNERS,
            _PLACES,
            _loop(fields),
            _ROWS,
            _CLIPPED if fields["clip"] else "detection_boxes = Identity (rows)",
        )
    )


def _number(value: float) -> str:
    """A float32 in ONNX text, to the last digit."""
    return format(float(np.float32(value)), ".17e")


def _orders(fields: Fields) -> dict[str, Any]:
    """How many of each class, and transpositions between the order of places and [N, C, B]."""
    first, second = ("classes", "boxes") if fields["class_major"] else ("boxes", "classes")
    perm = "[0, 1, 2]" if fields["class_major"] else "[0, 2, 1]"
    return {"first": first, "second": second, "perm": perm, "topk": fields["topk"]}


def _above(result: str, value: str, limit: str, inclusive: bool) -> str:
    """GreaterOrEqual is newer than opset 11, and the opposite of Less is true for a NaN."""
    if not inclusive:
        return f"{result} = Greater ({value}, {limit})"
    return f"""{result}_more = Greater ({value}, {limit})
{result}_same = Equal ({value}, {limit})
{result} = Or ({result}_more, {result}_same)"""


def _constants(fields: Fields) -> str:
    return f"""
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
two = Constant <value = int64[1] {{2}}> ()
three = Constant <value = int64[1] {{3}}> ()
four = Constant <value = int64[1] {{4}}> ()
minus_one = Constant <value = int64[1] {{-1}}> ()
none = Constant <value = int64 {{0}}> ()
unit = Constant <value = int64 {{1}}> ()
go = Constant <value = bool {{1}}> ()
never = Constant <value = bool {{0}}> ()
nought = Constant <value = float {{0.0}}> ()
lowest = Log (nought)
extra = Constant <value = float {{{float(fields["pixels"])}}}> ()
most = Constant <value = int64 {{{fields["max_output_boxes"]}}}> ()
most_list = Constant <value = int64[1] {{{fields["max_output_boxes"]}}}> ()
background = Constant <value = int64 {{{fields["background_class"]}}}> ()
filler = Constant <value = int64 {{{fields["zero_filler"] - 1}}}> ()
score_threshold = Constant <value = float {{{_number(fields["score_threshold"])}}}> ()
iou_threshold = Constant <value = float {{{_number(fields["iou_threshold"])}}}> ()"""


_TABLES = """
scores_shape = Shape (scores)
images = Slice (scores_shape, zero, one)
boxes_count = Slice (scores_shape, one, two)
classes_count = Slice (scores_shape, two, three)
places = Mul (boxes_count, classes_count)
boxes_shape = Shape (boxes)
groups_or_none = Slice (boxes_shape, two, minus_one)
groups_list = Concat <axis = 0> (groups_or_none, one)
groups = Slice (groups_list, zero, one)
grouped_shape = Concat <axis = 0> (images, boxes_count, groups, four)
grouped = Reshape (boxes, grouped_shape)
ones_shape = Concat <axis = 0> (one, one, classes_count, one)
ones = ConstantOfShape <value = float[1] {{1.0}}> (ones_shape)
each = Mul (grouped, ones)
ordered = Transpose <perm = {order}> (each)
table_shape = Concat <axis = 0> (images, places, four)
table = Reshape (ordered, table_shape)
column_shape = Concat <axis = 0> (images, boxes_count, classes_count, one)
score_column = Reshape (scores, column_shape)
ordered_scores = Transpose <perm = {order}> (score_column)
list_shape = Concat <axis = 0> (images, places)
score_list = Reshape (ordered_scores, list_shape)
class_scalar = Squeeze (classes_count)
box_scalar = Squeeze (boxes_count)
class_range = Range (none, class_scalar, unit)
box_range = Range (none, box_scalar, unit)
class_line_shape = Concat <axis = 0> (one, one, classes_count, one)
class_line = Reshape (class_range, class_line_shape)
box_line_shape = Concat <axis = 0> (one, boxes_count, one, one)
box_line = Reshape (box_range, box_line_shape)
numbers_shape = Concat <axis = 0> (one, boxes_count, classes_count, one)
zeros = ConstantOfShape <value = int64[1] {{0}}> (numbers_shape)
class_numbers = Add (class_line, zeros)
box_numbers = Add (box_line, zeros)
class_ordered = Transpose <perm = {order}> (class_numbers)
box_ordered = Transpose <perm = {order}> (box_numbers)
row_shape = Concat <axis = 0> (one, places)
class_row = Reshape (class_ordered, row_shape)
box_row = Reshape (box_ordered, row_shape)"""


def _candidates(fields: Fields) -> str:
    return f"""
{_above("above", "score_list", "score_threshold", fields["inclusive"])}
is_background = Equal (class_row, background)
is_foreground = Not (is_background)
wanted = And (above, is_foreground)"""


_LIMITED = """
topk = Constant <value = int64[1] {{{topk}}}> ()
cube_shape = Concat <axis = 0> (images, {first}_count, {second}_count)
by_class_shape = Concat <axis = 0> (images, classes_count, boxes_count)
only_wanted = Where (wanted, score_list, lowest)
cube = Reshape (only_wanted, cube_shape)
by_class = Transpose <perm = {perm}> (cube)
bounds = Concat <axis = 0> (topk, boxes_count)
least, which_bound = TopK <axis = 0, largest = 0> (bounds, one)
best_scores, best_boxes = TopK <axis = 2> (by_class, least)
out_number = ConstantOfShape (by_class_shape)
in_shape = Shape (best_boxes)
in_number = ConstantOfShape <value = float[1] {{1.0}}> (in_shape)
in_by_class = ScatterElements <axis = 2> (out_number, best_boxes, in_number)
in_cube = Transpose <perm = {perm}> (in_by_class)
in_list = Reshape (in_cube, list_shape)
is_in = Cast <to = 9> (in_list)
open = And (wanted, is_in)"""

_CORNERS = "corners = Identity (table)"

_CENTRES = """
half = Constant <value = float {0.5}> ()
centre = Slice (table, zero, two, two)
size = Slice (table, two, four, two)
half_size = Mul (size, half)
first_corner = Sub (centre, half_size)
second_corner = Add (centre, half_size)
corners = Concat <axis = 2> (first_corner, second_corner)"""

_PLACES = """
tail_shape = Concat <axis = 0> (images, one)
tail_flag = Expand (never, tail_shape)
tail_score = Expand (lowest, tail_shape)
tail_number = Expand (nought, tail_shape)
open_first = Concat <axis = 1> (open, tail_flag)
score = Concat <axis = 1> (score_list, tail_score)
all_places = Add (places, one)
all_shape = Concat <axis = 0> (images, all_places)
unit_row_shape = Concat <axis = 0> (one, one)
tail_row = Reshape (minus_one, unit_row_shape)
class_row_all = Concat <axis = 1> (class_row, tail_row)
box_row_all = Concat <axis = 1> (box_row, tail_row)
class_of = Expand (class_row_all, all_shape)
box_of = Expand (box_row_all, all_shape)
place_scalar = Squeeze (all_places)
place_range = Range (none, place_scalar, unit)
place_row_shape = Concat <axis = 0> (one, all_places)
place_of = Reshape (place_range, place_row_shape)
at_0 = Constant <value = int64 {0}> ()
at_1 = Constant <value = int64 {1}> ()
at_2 = Constant <value = int64 {2}> ()
at_3 = Constant <value = int64 {3}> ()
given_0 = Gather <axis = 2> (corners, at_0)
given_1 = Gather <axis = 2> (corners, at_1)
given_2 = Gather <axis = 2> (corners, at_2)
given_3 = Gather <axis = 2> (corners, at_3)
g0 = Concat <axis = 1> (given_0, tail_number)
g1 = Concat <axis = 1> (given_1, tail_number)
g2 = Concat <axis = 1> (given_2, tail_number)
g3 = Concat <axis = 1> (given_3, tail_number)
low_a = Min (g0, g2)
low_b = Min (g1, g3)
high_a = Max (g0, g2)
high_b = Max (g1, g3)
length_a = Sub (high_a, low_a)
length_b = Sub (high_b, low_b)
whole_a = Add (length_a, extra)
whole_b = Add (length_b, extra)
area = Mul (whole_a, whole_b)
no_number = IsNaN (area)
is_number = Not (no_number)
counts = Constant <value = int64[1, 1] {0}> ()
first_count = Expand (counts, tail_shape)"""
"""What is known of every place: its score, box, class, corners and area."""


def _loop(fields: Fields) -> str:
    rivals = "over" if fields["class_agnostic"] else "rival"
    return f"""
left, number, bests, valids = Loop <body = take_best (int64 i, bool keep, bool[N, P] open, int64[N, U] count)
    => (bool go_on, bool[N, P] open_next, int64[N, U] count_next, int64[N, U] best, bool[N, U] valid) {{
  zero_float = Constant <value = float {{0.0}}> ()
  only_open = Where (open, score, lowest)
  top = ArgMax <axis = 1, keepdims = 1> (only_open)
  top_score = GatherElements <axis = 1> (only_open, top)
  as_good = Equal (score, top_score)
  is_best = And (as_good, open)
  is_best_number = Cast <to = 6> (is_best)
  best = ArgMax <axis = 1, keepdims = 1> (is_best_number)
  valid = GatherElements <axis = 1> (open, best)
  best_low_a = GatherElements <axis = 1> (low_a, best)
  best_low_b = GatherElements <axis = 1> (low_b, best)
  best_high_a = GatherElements <axis = 1> (high_a, best)
  best_high_b = GatherElements <axis = 1> (high_b, best)
  best_area = GatherElements <axis = 1> (area, best)
  inner_low_a = Max (low_a, best_low_a)
  inner_low_b = Max (low_b, best_low_b)
  inner_high_a = Min (high_a, best_high_a)
  inner_high_b = Min (high_b, best_high_b)
  side_a = Sub (inner_high_a, inner_low_a)
  side_b = Sub (inner_high_b, inner_low_b)
  common_a = Add (side_a, extra)
  common_b = Add (side_b, extra)
  common = Mul (common_a, common_b)
  both = Add (area, best_area)
  either = Sub (both, common)
  share_given = Div (common, either)
  apart_a = Less (side_a, zero_float)
  apart_b = Less (side_b, zero_float)
  apart = Or (apart_a, apart_b)
  some_common = Greater (common, zero_float)
  no_common = Not (some_common)
  some_either = Greater (either, zero_float)
  no_either = Not (some_either)
  unreal = Or (no_common, no_either)
  is_nan = IsNaN (share_given)
  numeric = Not (is_nan)
  unreal_number = And (unreal, numeric)
  nothing = Or (apart, unreal_number)
  share = Where (nothing, zero_float, share_given)
  {_above("reached", "share", "iou_threshold", fields["inclusive"])}
  best_is_number = GatherElements <axis = 1> (is_number, best)
  two_numbers = And (is_number, best_is_number)
  over = And (reached, two_numbers)
  best_class = GatherElements <axis = 1> (class_of, best)
  same_class = Equal (class_of, best_class)
  rival = And (over, same_class)
  itself = Equal (place_of, best)
  gone = Or ({rivals}, itself)
  gone_now = And (gone, valid)
  stays = Not (gone_now)
  open_next = And (open, stays)
  step = Cast <to = 7> (valid)
  count_next = Add (count, step)
  go_on = Identity (keep)
}}> (most, go, open_first, first_count)"""


_ROWS = """
num_detections = Cast <to = 6> (number)
steps_first = Transpose <perm = [1, 0, 2]> (bests)
flags_first = Transpose <perm = [1, 0, 2]> (valids)
rows_shape = Concat <axis = 0> (images, most_list)
chosen = Reshape (steps_first, rows_shape)
real = Reshape (flags_first, rows_shape)
row_scores = GatherElements <axis = 1> (score, chosen)
detection_scores = Where (real, row_scores, nought)
row_classes = GatherElements <axis = 1> (class_of, chosen)
all_classes = Where (real, row_classes, filler)
detection_classes = Cast <to = 6> (all_classes)
row_boxes = GatherElements <axis = 1> (box_of, chosen)
all_indices = Where (real, row_boxes, filler)
detection_indices = Cast <to = 6> (all_indices)
row_column_shape = Concat <axis = 0> (images, most_list, one)
""" + "\n".join(
    f"""row_{i} = GatherElements <axis = 1> (g{i}, chosen)
real_{i} = Where (real, row_{i}, nought)
column_{i} = Reshape (real_{i}, row_column_shape)"""
    for i in range(4)
) + """
rows = Concat <axis = 2> (column_0, column_1, column_2, column_3)"""  # fmt: skip

_CLIPPED = """
whole = Constant <value = float {1.0}> ()
detection_boxes = Clip (rows, nought, whole)"""
