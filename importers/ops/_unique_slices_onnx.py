"""Unique in other operators of ONNX: slices in lexicographic order by one stable sort for each of their elements.

TopK is stable, as ONNX defines it: of equal elements the one with the lower index comes first. So the order is that of a
radix sort, from the last element of the slices to the first, and equal slices lie side by side in the order of their
positions. A NaN is sorted by a flag of its own, behind all numbers.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> str:
    """onnxruntime sorts float32 and int64, which hold the other types of elements."""
    whole = expansion.dtype in ("int32", "int64")
    axis = expansion.fields["axis"]
    # Sizes before the axis and behind it; the one behind the last axis is not number 0.
    behind = axis + 1 if axis != -1 else 2**63 - 1
    body = _ROWS.format(into=7 if whole else 1, axis=axis, behind=behind)
    body += _SORT.format(keys=_INTEGER_KEYS if whole else _FLOAT_KEYS)
    body += _GROUPS.format(differ=_INTEGERS_DIFFER if whole else _FLOATS_DIFFER)
    body += _BY_VALUE if expansion.fields["sorted"] else _FIRST_COME
    return body + _OUTPUTS.format(axis=axis)


_ROWS = """
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
minus_one = Constant <value = int64[1] {{-1}}> ()
axis = Constant <value = int64[1] {{{axis}}}> ()
behind = Constant <value = int64[1] {{{behind}}}> ()
end = Constant <value = int64[1] {{9223372036854775807}}> ()
none = Constant <value = int64 {{0}}> ()
unit = Constant <value = int64 {{1}}> ()
go = Constant <value = bool {{1}}> ()
given = Cast <to = {into}> (x)
sizes = Shape (x)
slices = Gather <axis = 0> (sizes, axis)
outer_sizes = Slice (sizes, zero, axis)
inner_sizes = Slice (sizes, behind, end)
outer_some = Concat <axis = 0> (one, outer_sizes)
inner_some = Concat <axis = 0> (one, inner_sizes)
outer = ReduceProd <keepdims = 1> (outer_some)
inner = ReduceProd <keepdims = 1> (inner_some)
length = Mul (outer, inner)
parts_shape = Concat <axis = 0> (outer, slices, inner)
parts = Reshape (given, parts_shape)
moved = Transpose <perm = [1, 0, 2]> (parts)
rows_shape = Concat <axis = 0> (slices, length)
rows = Reshape (moved, rows_shape)
slices_scalar = Squeeze (slices)
length_scalar = Squeeze (length)
positions = Range (none, slices_scalar, unit)"""
"""x as [slices, length]."""

_SORT = """
order = Loop <body = by_element (int64 i, bool keep, int64[n] before) => (bool keep_on, int64[n] after) {{
  keep_on = Identity (keep)
  one_inside = Constant <value = int64 {{1}}> ()
  from_end = Add (i, one_inside)
  column = Neg (from_end)
  elements = Gather <axis = 1> (rows, column)
  keys = Gather <axis = 0> (elements, before){keys}
}}> (length_scalar, go, positions)
sorted = Gather <axis = 0> (rows, order)"""

_INTEGER_KEYS = """
  ranked, by_value = TopK <largest = 0, sorted = 1, axis = 0> (keys, slices)
  after = Gather <axis = 0> (before, by_value)"""

_FLOAT_KEYS = """
  is_nan = IsNaN (keys)
  nought = Constant <value = float {0}> ()
  numbers = Where (is_nan, nought, keys)
  ranked, by_value = TopK <largest = 0, sorted = 1, axis = 0> (numbers, slices)
  last = Cast <to = 6> (is_nan)
  last_ranked = Gather <axis = 0> (last, by_value)
  last_wide = Cast <to = 7> (last_ranked)
  ranked_again, by_nan = TopK <largest = 0, sorted = 1, axis = 0> (last_wide, slices)
  by_both = Gather <axis = 0> (by_value, by_nan)
  after = Gather <axis = 0> (before, by_both)"""

_GROUPS = """
earlier = Slice (sorted, zero, minus_one)
later = Slice (sorted, one, end){differ}
differ_as_number = Cast <to = 7> (differ)
pairs_shape = Shape (later)
pairs = Slice (pairs_shape, zero, one)
column_shape = Concat <axis = 0> (pairs, one)
no_difference = Expand (none, column_shape)
differences = Concat <axis = 1> (differ_as_number, no_difference)
largest = ArgMax <axis = 1, keepdims = 1> (differences)
any_difference = GatherElements <axis = 1> (differences, largest)
begins_later = Reshape (any_difference, minus_one)
begins_first = Slice (one, zero, slices)
begins = Concat <axis = 0> (begins_first, begins_later)
numbers_from_one = CumSum (begins, none)
group = Sub (numbers_from_one, unit)
group_at = ScatterElements <axis = 0> (positions, order, group)
found = NonZero (begins)
starts = Reshape (found, minus_one)
bounds = Concat <axis = 0> (starts, slices)
ends = Slice (bounds, one, end)
sizes_of_groups = Sub (ends, starts)
firsts = Gather <axis = 0> (order, starts)
groups = Shape (firsts)"""
"""Where equal slices begin among the sorted ones; a column without a difference is added for slices without elements."""

_INTEGERS_DIFFER = """
same = Equal (earlier, later)
differ = Not (same)"""

_FLOATS_DIFFER = """
equal = Equal (earlier, later)
earlier_nan = IsNaN (earlier)
later_nan = IsNaN (later)
both_nan = And (earlier_nan, later_nan)
same = Or (equal, both_nan)
differ = Not (same)"""

_BY_VALUE = """
first = Identity (firsts)
counts = Identity (sizes_of_groups)
inverse = Identity (group_at)"""

_FIRST_COME = """
first, ranking = TopK <largest = 0, sorted = 1, axis = 0> (firsts, groups)
counts = Gather <axis = 0> (sizes_of_groups, ranking)
groups_scalar = Squeeze (groups)
numbers = Range (none, groups_scalar, unit)
renumbered = ScatterElements <axis = 0> (numbers, ranking, numbers)
inverse = Gather <axis = 0> (renumbered, group_at)"""

_OUTPUTS = """
output = Gather <axis = {axis}> (x, first)
groups_alone = Squeeze (groups)
count = Cast <to = 6> (groups_alone)"""
