"""Takes the best candidate that is left of every image, a fixed number of times: the Loop of the expansion."""

from __future__ import annotations

from trtsmith.importers.opdef import Fields
from trtsmith.importers.ops.selection import _rotated_share_onnx as rotated_share


def above(result: str, value: str, limit: str, inclusive: bool) -> str:
    """GreaterOrEqual is newer than opset 11, and the opposite of Less is true for a NaN."""
    if not inclusive:
        return f"{result} = Greater ({value}, {limit})"
    return f"""{result}_more = Greater ({value}, {limit})
{result}_same = Equal ({value}, {limit})
{result} = Or ({result}_more, {result}_same)"""


def take_in_turn(fields: Fields) -> str:
    upright_or_prob = _LIKENESS if fields["prob_iou"] else _SHARE
    shares = _polygons() if fields["polygon_iou"] else upright_or_prob
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
{shares}  {above("reached", "share", "iou_threshold", fields["inclusive"])}
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


def _polygons() -> str:
    lines = rotated_share.share("share_given", lambda name: f"GatherElements <axis = 1> ({name}, best)")
    return f"""{lines}
share_there = Greater (share_given, r_least_share)
share = Where (share_there, share_given, r_zero)
"""


_SHARE = """  best_low_a = GatherElements <axis = 1> (low_a, best)
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
"""
"""Intersection over union with the best, as the kernel computes it."""

_LIKENESS = """  best_x = GatherElements <axis = 1> (x, best)
  best_y = GatherElements <axis = 1> (y, best)
  best_a = GatherElements <axis = 1> (spread_a, best)
  best_b = GatherElements <axis = 1> (spread_b, best)
  best_c = GatherElements <axis = 1> (spread_c, best)
  best_own = GatherElements <axis = 1> (own, best)
  quarter = Constant <value = float {0.25}> ()
  half_number = Constant <value = float {0.5}> ()
  whole_number = Constant <value = float {1.0}> ()
  four_number = Constant <value = float {4.0}> ()
  least = Constant <value = float {1e-7}> ()
  most_distance = Constant <value = float {100.0}> ()
  apart_x = Sub (x, best_x)
  apart_y = Sub (y, best_y)
  sum_a = Add (spread_a, best_a)
  sum_b = Add (spread_b, best_b)
  sum_c = Add (spread_c, best_c)
  product = Mul (sum_a, sum_b)
  mixed = Mul (sum_c, sum_c)
  determinant_given = Sub (product, mixed)
  determinant = Max (determinant_given, least)
  square_x = Mul (apart_x, apart_x)
  square_y = Mul (apart_y, apart_y)
  square_xy = Mul (apart_x, apart_y)
  first_x = Mul (sum_a, square_x)
  first_y = Mul (sum_b, square_y)
  first_xy = Mul (sum_c, square_xy)
  first_two = Add (first_x, first_y)
  first_sum = Add (first_two, first_xy)
  first_quarter = Mul (first_sum, quarter)
  first = Div (first_quarter, determinant)
  owns = Mul (own, best_own)
  owns_four = Mul (owns, four_number)
  ratio = Div (determinant, owns_four)
  logarithm = Log (ratio)
  half_logarithm = Mul (logarithm, half_number)
  second = Div (half_logarithm, determinant)
  distance_given = Add (first, second)
  distance_bound = Min (distance_given, most_distance)
  distance = Max (distance_bound, least)
  minus_distance = Neg (distance)
  likeness_exp = Exp (minus_distance)
  likeness_rest = Sub (whole_number, likeness_exp)
  hellinger = Sqrt (likeness_rest)
  share = Sub (whole_number, hellinger)
"""
"""ProbIoU as TensorRT-YOLO computes it."""
