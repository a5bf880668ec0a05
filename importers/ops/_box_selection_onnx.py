"""NonMaxSuppression in other operators of ONNX.

Boxes that no class may take are left out before. All arithmetic is that of ONNX's own operator, in float32: corners, areas,
and intersection over union, so that no box is on the other side of a threshold.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.selection import _selection_loop_onnx as loop


def expand(expansion: Expansion) -> str:
    above = _ABOVE if "score_threshold" in expansion.present else "candidates = Equal (scores, scores)"
    corners = _CENTRES if expansion.fields["center_point_box"] else _CORNERS
    constants = loop.CONSTANTS.format(most=expansion.fields["most"]) + _FLOATS
    taking = loop.PLACES + _STEPS + loop.selection_loop(_OVERLAPS, "lowest")
    return constants + above + loop.WITHOUT_OTHERS + corners + _LISTS + taking + loop.ROWS


_FLOATS = "nought = Constant <value = float {0.0}> ()\n"

_ABOVE = "candidates = Greater (scores, score_threshold)"

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

_LISTS = """
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
area_list = Reshape (area_column, minus_one)"""

_STEPS = """
lowest = Log (nought)
bounds = Concat <axis = 0> (max_output_boxes_per_class, most_ever, boxes_left)
wanted, which_bound = TopK <axis = 0, largest = 0> (bounds, one)
wanted_or_none = Concat <axis = 0> (wanted, zero)
steps, which_steps = TopK <axis = 0> (wanted_or_none, one)
steps_scalar = Squeeze (steps)"""

_OVERLAPS = """  zero_float = Constant <value = float {0.0}> ()
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
  over = And (overlaps, real)"""
"""A box of which a corner is no number, or that has no end, has no area here, and so overlaps none."""
