"""Expands the selection of rotated boxes: one Loop takes the best box of every image and class at a time."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops._box_selection_onnx import ROWS, WITHOUT_OTHERS
from trtsmith.importers.ops.selection import _rotated_share_onnx as rotated_share


def expand(expansion: Expansion) -> str:
    fields = expansion.fields
    setup = _SETUP.format(
        most=fields["most"],
        score=_number(fields["score_threshold"]),
        overlap=_number(fields["iou_threshold"]),
    )
    numbers = (f"kept_{name}" for name in ("x", "y", "width", "height", "angle"))
    prepared = rotated_share.prepare(*numbers, clockwise=bool(fields["clockwise"]), suffix="_column")
    best = rotated_share.share("share", lambda name: f"Gather <axis = 0> ({name}_list, place)")
    rows = "\n".join(  # in the Loop, the boxes of an image are a row
        f"r_{part}_list = Reshape (r_{part}_column, minus_one)\n"
        f"r_{part} = Transpose <perm = [0, 2, 1]> (r_{part}_column)"
        for part in rotated_share.PARTS
    )
    return "\n".join(
        (
            setup,
            WITHOUT_OTHERS,
            _NUMBERS,
            rotated_share.CONSTANTS,
            prepared,
            rows,
            _BEFORE,
            _LOOP % best,
            ROWS,
        )
    )


def _number(value: float) -> str:
    """A float32 in ONNX text, to the last digit."""
    return format(float(np.float32(value)), ".17e")


_SETUP = """
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
two = Constant <value = int64[1] {{2}}> ()
three = Constant <value = int64[1] {{3}}> ()
four = Constant <value = int64[1] {{4}}> ()
minus_one = Constant <value = int64[1] {{-1}}> ()
none = Constant <value = int64 {{0}}> ()
unit = Constant <value = int64 {{1}}> ()
most_ever = Constant <value = int64[1] {{{most}}}> ()
go = Constant <value = bool {{1}}> ()
score_threshold = Constant <value = float {{{score}}}> ()
iou_threshold = Constant <value = float {{{overlap}}}> ()
candidates = Greater (scores, score_threshold)"""

_NUMBERS = """
kept_x = Gather <axis = 2> (kept_boxes, zero)
kept_y = Gather <axis = 2> (kept_boxes, one)
kept_width = Gather <axis = 2> (kept_boxes, two)
kept_height = Gather <axis = 2> (kept_boxes, three)
kept_angle = Gather <axis = 2> (kept_boxes, four)"""

_BEFORE = """
images_scalar = Squeeze (images)
boxes_scalar = Squeeze (boxes_left)
image_numbers = Range (none, images_scalar, unit)
first_boxes = Mul (image_numbers, boxes_scalar)
image_shape = Concat <axis = 0> (images, one, one)
first_box = Reshape (first_boxes, image_shape)
box_numbers = Range (none, boxes_scalar, unit)
bounds = Concat <axis = 0> (most_ever, boxes_left)
steps, which_bound = TopK <axis = 0, largest = 0> (bounds, one)
steps_scalar = Squeeze (steps)"""

_LOOP = """
left_behind, bests, valids = Loop <body = take_best (int64 i, bool keep, bool[B, C, n] open)
    => (bool go_on, bool[B, C, n] open_next, int64[B, C, k] best, bool[B, C, k] valid) {
only_open = Where (open, kept_scores, r_lowest)
top = ArgMax <axis = 2, keepdims = 1> (only_open)
top_score = GatherElements <axis = 2> (only_open, top)
as_good = Equal (kept_scores, top_score)
is_best = And (as_good, open)
is_best_number = Cast <to = 6> (is_best)
best = ArgMax <axis = 2, keepdims = 1> (is_best_number)
valid = GatherElements <axis = 2> (open, best)
place = Add (best, first_box)
%s
some = Greater (share, r_least_share)
above = Greater (share, iou_threshold)
over = And (some, above)
itself = Equal (box_numbers, best)
gone = Or (over, itself)
stays = Not (gone)
open_next = And (open, stays)
open_number = Cast <to = 6> (open_next)
any_open = ReduceMax <keepdims = 0> (open_number)
go_on = Cast <to = 9> (any_open)
}> (steps_scalar, go, left)"""
