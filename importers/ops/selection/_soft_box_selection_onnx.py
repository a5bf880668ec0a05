"""Expands the soft selection of boxes: a Loop takes the best box that is left, and lowers the scores of the others."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> str:
    fields = expansion.fields
    numbers = {name: _number(fields[name]) for name in ("iou_threshold", "sigma", "min_score", "offset")}
    return _SETUP.format(**numbers) + _LOOP.format(weight=_WEIGHTS[fields["method"]]) + _ROWS


def _number(value: float) -> str:
    """A float32 in ONNX text, to the last digit."""
    return format(float(np.float32(value)), ".17e")


_SETUP = """
none = Constant <value = int64 {{0}}> ()
unit = Constant <value = int64 {{1}}> ()
one = Constant <value = int64[1] {{1}}> ()
minus_one = Constant <value = int64[1] {{-1}}> ()
go = Constant <value = bool {{1}}> ()
nought = Constant <value = float {{0.0}}> ()
whole = Constant <value = float {{1.0}}> ()
iou_threshold = Constant <value = float {{{iou_threshold}}}> ()
sigma = Constant <value = float {{{sigma}}}> ()
min_score = Constant <value = float {{{min_score}}}> ()
offset = Constant <value = float {{{offset}}}> ()
lowest = Log (nought)
at_0 = Constant <value = int64 {{0}}> ()
at_1 = Constant <value = int64 {{1}}> ()
at_2 = Constant <value = int64 {{2}}> ()
at_3 = Constant <value = int64 {{3}}> ()
corner_0 = Gather <axis = 1> (boxes, at_0)
corner_1 = Gather <axis = 1> (boxes, at_1)
corner_2 = Gather <axis = 1> (boxes, at_2)
corner_3 = Gather <axis = 1> (boxes, at_3)
low_x = Min (corner_0, corner_2)
low_y = Min (corner_1, corner_3)
high_x = Max (corner_0, corner_2)
high_y = Max (corner_1, corner_3)
length_x = Sub (high_x, low_x)
length_y = Sub (high_y, low_y)
side_x = Add (length_x, offset)
side_y = Add (length_y, offset)
area = Mul (side_x, side_y)
count_list = Shape (scores)
steps = Squeeze (count_list)
numbers = Range (none, steps, unit)
open_first = Equal (scores, scores)
all_scores = Where (open_first, scores, nought)
"""

_LOOP = """
scores_left, open_left, bests, best_scores, valids = Loop <body = take_best (
    int64 i, bool keep, float[n] score, bool[n] open)
    => (bool go_on, float[n] score_next, bool[n] open_next, int64[k] best, float[k] best_score, bool[k] valid) {{
only_open = Where (open, score, lowest)
top = ArgMax <axis = 0, keepdims = 1> (only_open)
top_score = Gather <axis = 0> (only_open, top)
as_good = Equal (score, top_score)
is_best = And (as_good, open)
is_best_number = Cast <to = 6> (is_best)
best = ArgMax <axis = 0, keepdims = 1> (is_best_number)
valid = Gather <axis = 0> (open, best)
best_score = Gather <axis = 0> (score, best)
best_low_x = Gather <axis = 0> (low_x, best)
best_low_y = Gather <axis = 0> (low_y, best)
best_high_x = Gather <axis = 0> (high_x, best)
best_high_y = Gather <axis = 0> (high_y, best)
best_area = Gather <axis = 0> (area, best)
inner_low_x = Max (low_x, best_low_x)
inner_low_y = Max (low_y, best_low_y)
inner_high_x = Min (high_x, best_high_x)
inner_high_y = Min (high_y, best_high_y)
apart_x = Sub (inner_high_x, inner_low_x)
apart_y = Sub (inner_high_y, inner_low_y)
common_x = Add (apart_x, offset)
common_y = Add (apart_y, offset)
common = Mul (common_x, common_y)
both = Add (area, best_area)
either = Sub (both, common)
some_x = Greater (common_x, nought)
some_y = Greater (common_y, nought)
some_both = And (some_x, some_y)
some_either = Greater (either, nought)
real = And (some_both, some_either)
safe = Where (real, either, whole)
given = Div (common, safe)
share = Where (real, given, nought)
reached_not = Less (share, iou_threshold)
{weight}
lowered = Mul (score, weight)
is_low = Less (lowered, min_score)
is_nan = IsNaN (lowered)
lost = Or (is_low, is_nan)
itself = Equal (numbers, best)
gone = Or (lost, itself)
stays = Not (gone)
open_next = And (open, stays)
score_next = Where (open_next, lowered, nought)
open_number = Cast <to = 6> (open_next)
any_open = ReduceMax <keepdims = 0> (open_number)
go_on = Cast <to = 9> (any_open)
}}> (steps, go, all_scores, open_first)"""

_WEIGHTS = {
    0: "weight = Where (reached_not, whole, nought)",
    1: "rest = Sub (whole, share)\nweight = Where (reached_not, whole, rest)",
    2: "squared = Mul (share, share)\nover_sigma = Div (squared, sigma)\nminus = Neg (over_sigma)\nweight = Exp (minus)",
}

_ROWS = """
best_list = Reshape (bests, minus_one)
score_list = Reshape (best_scores, minus_one)
valid_list = Reshape (valids, minus_one)
inds = Compress <axis = 0> (best_list, valid_list)
chosen_scores = Compress <axis = 0> (score_list, valid_list)
chosen_boxes = Gather <axis = 0> (boxes, inds)
column_shape = Constant <value = int64[2] {-1, 1}> ()
score_column = Reshape (chosen_scores, column_shape)
dets = Concat <axis = 1> (chosen_boxes, score_column)
number_list = Shape (inds)
number = Squeeze (number_list)
count = Cast <to = 6> (number)"""
