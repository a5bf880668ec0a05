"""Expands the selection of detections: a Loop takes the best candidate that is left of every image at a time.

Every score is one place of a list of its image, in the order that decides between equal scores. One more place, which no
step takes, makes lists of images without boxes long enough for ArgMax. All arithmetic is that of the kernel, in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Expansion, Fields
from trtsmith.importers.ops.selection import _rotated_share_onnx as rotated_share
from trtsmith.importers.ops.selection._detection_selection_loop import above, take_in_turn


def expand(expansion: Expansion) -> str:
    fields = expansion.fields
    return "\n".join(
        (
            _constants(fields),
            _TABLES.format(order="[0, 2, 1, 3]" if fields["class_major"] else "[0, 1, 2, 3]"),
            _candidates(fields),
            _LIMITED.format(**_orders(fields)) if fields["topk"] > 0 else "open = Identity (wanted)",
            _CENTRES.format(angle=", angle" * fields["prob_iou"]) if fields["box_coding"] else _CORNERS,
            _given(_columns(fields)),
            _PLACES,
            _SPREADS if fields["prob_iou"] else "",
            _rotated() if fields["polygon_iou"] else "",
            take_in_turn(fields),
            _ROWS,
            _boxes(fields),
        )
    )


def _columns(fields: Fields) -> int:
    """Numbers of a box."""
    return 5 if fields["prob_iou"] or fields["polygon_iou"] else 4


def _number(value: float) -> str:
    """A float32 in ONNX text, to the last digit."""
    return format(float(np.float32(value)), ".17e")


def _orders(fields: Fields) -> dict[str, Any]:
    """How many of each class, and transpositions between the order of places and [N, C, B]."""
    first, second = ("classes", "boxes") if fields["class_major"] else ("boxes", "classes")
    perm = "[0, 1, 2]" if fields["class_major"] else "[0, 2, 1]"
    return {"first": first, "second": second, "perm": perm, "topk": fields["topk"]}


def _rotated() -> str:
    """Rotated boxes as their share is computed from."""
    return rotated_share.CONSTANTS + rotated_share.prepare("g0", "g1", "g2", "g3", "g4")


def _constants(fields: Fields) -> str:
    return f"""
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
two = Constant <value = int64[1] {{2}}> ()
three = Constant <value = int64[1] {{3}}> ()
four = Constant <value = int64[1] {{4}}> ()
columns = Constant <value = int64[1] {{{_columns(fields)}}}> ()
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
grouped_shape = Concat <axis = 0> (images, boxes_count, groups, columns)
grouped = Reshape (boxes, grouped_shape)
ones_shape = Concat <axis = 0> (one, one, classes_count, one)
ones = ConstantOfShape <value = float[1] {{1.0}}> (ones_shape)
each = Mul (grouped, ones)
ordered = Transpose <perm = {order}> (each)
table_shape = Concat <axis = 0> (images, places, columns)
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
tail_shape = Concat <axis = 0> (images, one)
tail_number = Expand (nought, tail_shape)
row_shape = Concat <axis = 0> (one, places)
class_row = Reshape (class_ordered, row_shape)
box_row = Reshape (box_ordered, row_shape)"""


def _candidates(fields: Fields) -> str:
    return f"""
{above("above", "score_list", "score_threshold", fields["inclusive"])}
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
half = Constant <value = float {{0.5}}> ()
centre = Slice (table, zero, two, two)
size = Slice (table, two, four, two)
half_size = Mul (size, half)
first_corner = Sub (centre, half_size)
second_corner = Add (centre, half_size)
angle = Slice (table, four, columns, two)
corners = Concat <axis = 2> (first_corner, second_corner{angle})"""


def _given(columns: int) -> str:
    """The numbers of every place's box: two corners, and an angle."""
    return "\n".join(
        f"""at_{i} = Constant <value = int64 {{{i}}}> ()
given_{i} = Gather <axis = 2> (corners, at_{i})
g{i} = Concat <axis = 1> (given_{i}, tail_number)"""
        for i in range(columns)
    )


_PLACES = """
tail_flag = Expand (never, tail_shape)
tail_score = Expand (lowest, tail_shape)
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


_SPREADS = """
half_length = Constant <value = float {0.5}> ()
twelve = Constant <value = float {12.0}> ()
half_a = Mul (length_a, half_length)
half_b = Mul (length_b, half_length)
x = Add (low_a, half_a)
y = Add (low_b, half_b)
square_a = Mul (length_a, length_a)
square_b = Mul (length_b, length_b)
variance_a = Div (square_a, twelve)
variance_b = Div (square_b, twelve)
sine = Sin (g4)
cosine = Cos (g4)
sine_2 = Mul (sine, sine)
cosine_2 = Mul (cosine, cosine)
sine_cosine = Mul (sine, cosine)
a_first = Mul (variance_b, cosine_2)
a_second = Mul (variance_a, sine_2)
spread_a = Add (a_first, a_second)
b_first = Mul (variance_b, sine_2)
b_second = Mul (variance_a, cosine_2)
spread_b = Add (b_first, b_second)
variance_apart = Sub (variance_b, variance_a)
spread_c = Mul (variance_apart, sine_cosine)
spread_product = Mul (spread_a, spread_b)
spread_mixed = Mul (spread_c, spread_c)
own_given = Sub (spread_product, spread_mixed)
own = Max (own_given, nought)"""
"""Rotated boxes as normal distributions: their centres and covariances."""

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
row_column_shape = Concat <axis = 0> (images, most_list, one)"""


def _boxes(fields: Fields) -> str:
    columns = range(_columns(fields))
    parts = ["whole = Constant <value = float {1.0}> ()"]
    for i in columns:
        limited = "Clip ({}, nought, whole)" if fields["clip"] and i < 4 else "Identity ({})"
        parts.append(f"""row_{i} = GatherElements <axis = 1> (g{i}, chosen)
real_{i} = Where (real, row_{i}, nought)
limited_{i} = {limited.format(f"real_{i}")}
column_{i} = Reshape (limited_{i}, row_column_shape)""")
    parts.append(f"detection_boxes = Concat <axis = 2> ({', '.join(f'column_{i}' for i in columns)})")
    return "\n".join(parts)
