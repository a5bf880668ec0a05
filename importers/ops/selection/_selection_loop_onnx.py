"""Non-maximum suppression in operators of ONNX: one Loop takes the best box of every image and class at a time.

What boxes are, and which of them overlap, is for the operator to say.
"""

from __future__ import annotations

CONSTANTS = """
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
two = Constant <value = int64[1] {{2}}> ()
three = Constant <value = int64[1] {{3}}> ()
minus_one = Constant <value = int64[1] {{-1}}> ()
none = Constant <value = int64 {{0}}> ()
unit = Constant <value = int64 {{1}}> ()
most_ever = Constant <value = int64[1] {{{most}}}> ()
go = Constant <value = bool {{1}}> ()
"""
"""most: of each class and image, at most."""

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

PLACES = """
images_scalar = Squeeze (images)
boxes_scalar = Squeeze (boxes_left)
image_numbers = Range (none, images_scalar, unit)
first_boxes = Mul (image_numbers, boxes_scalar)
image_shape = Concat <axis = 0> (images, one, one)
first_box = Reshape (first_boxes, image_shape)
box_numbers = Range (none, boxes_scalar, unit)"""
"""Where the boxes of each image begin in a list of all."""


def selection_loop(overlaps: str, lowest: str) -> str:
    """The Loop, for as many times as the scalar `steps_scalar` says.

    overlaps: ONNX that makes `over` [images, classes, boxes], which boxes the one at `place` of each list overlaps.
    lowest: the name of a score below all others.
    """
    return f"""
left_behind, bests, valids = Loop <body = take_best (int64 i, bool keep, bool[B, C, n] open)
    => (bool go_on, bool[B, C, n] open_next, int64[B, C, k] best, bool[B, C, k] valid) {{
  only_open = Where (open, kept_scores, {lowest})
  top = ArgMax <axis = 2, keepdims = 1> (only_open)
  top_score = GatherElements <axis = 2> (only_open, top)
  as_good = Equal (kept_scores, top_score)
  is_best = And (as_good, open)
  is_best_number = Cast <to = 6> (is_best)
  best = ArgMax <axis = 2, keepdims = 1> (is_best_number)
  valid = GatherElements <axis = 2> (open, best)
  place = Add (best, first_box)
{overlaps}
  itself = Equal (box_numbers, best)
  gone = Or (over, itself)
  stays = Not (gone)
  open_next = And (open, stays)
  open_number = Cast <to = 6> (open_next)
  any_open = ReduceMax <keepdims = 0> (open_number)
  go_on = Cast <to = 9> (any_open)
}}> (steps_scalar, go, left)"""


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
"""Image, class and box of each, in order, and how many there are."""
