"""Expands the reduction of rows of segments into standard ONNX operators: segments as rows of a table."""

from __future__ import annotations

from trtsmith.importers.ops.reduction._rows import MAX, MEAN, MIN, SUM

SUM_AXES_INPUT = 13
MAX_AXES_INPUT = 18
"""First opsets in which the axes of ReduceSum and of ReduceMax are an input."""


def constants(source: str = "source") -> str:
    """What `reduced_rows` needs. source: the value with the rows, [E, ...]."""
    return _CONSTANTS.format(source=source)


def reduced_rows(reduction: int, opset: int, *, origin: bool, output: str = "output") -> str:
    """From int64 `counts` and `starts` [S] of segments, and `order` [E] of rows, to the value `output` [S, ...].

    With `origin`, also that output. Segments without a row are zero. Needs `constants`, and `segments`, int64[1].
    """
    fill = {SUM: 0.0, MEAN: 0.0}.get(reduction)
    body = _TABLE
    if fill is None:
        if reduction == MIN:
            body += "table_signed = Neg (table)\n"
        else:
            body += "table_signed = Identity (table)\n"
        body += _EXTREME_ROWS
        if opset >= MAX_AXES_INPUT:
            body += "most_number = ReduceMax <keepdims = 0> (members, i1)\n"
        else:
            body += "most_number = ReduceMax <axes = [1], keepdims = 0> (members)\n"
        body += f"reduced = {'Identity' if reduction == MAX else 'Neg'} (most_number)\n"
    else:
        body += _SUM_ROWS
        if opset >= SUM_AXES_INPUT:
            body += "total = ReduceSum <keepdims = 0> (members, i1)\n"
        else:
            body += "total = ReduceSum <axes = [1], keepdims = 0> (members)\n"
        body += _MEAN if reduction == MEAN else "reduced = Identity (total)\n"
    body += f"{_OUTPUT}{output} = Reshape (reduced_or_zero, output_shape)\n"
    if origin:
        body += _ORIGIN_OF_EACH if fill is None else _COUNTS
    return body


_CONSTANTS = """
i0 = Constant <value = int64[1] {{0}}> ()
i1 = Constant <value = int64[1] {{1}}> ()
i2 = Constant <value = int64[1] {{2}}> ()
last = Constant <value = int64[1] {{9223372036854775807}}> ()
zero = Constant <value = int64 {{0}}> ()
one = Constant <value = int64 {{1}}> ()
nought = Constant <value = float {{0}}> ()
source_sizes = Shape ({source})
rows = Slice (source_sizes, i0, i1)
other_sizes = Slice (source_sizes, i1, last)
other_some = Concat <axis = 0> (i1, other_sizes)
columns = ReduceProd <keepdims = 1> (other_some)
table_shape = Concat <axis = 0> (rows, columns)
table = Reshape ({source}, table_shape)
rows_end = Squeeze (rows)
numbers = Range (zero, rows_end, one)
"""


_TABLE = """
counts_and_one = Concat <axis = 0> (counts, i1)
most = ReduceMax <keepdims = 0> (counts_and_one)
offsets_in = Range (zero, most, one)
segment_column = Concat <axis = 0> (segments, i1)
counts_column = Reshape (counts, segment_column)
starts_column = Reshape (starts, segment_column)
is_member = Less (offsets_in, counts_column)
place = Add (starts_column, offsets_in)
no_rows = Expand (rows, segment_column)
order_and_none = Concat <axis = 0> (order, rows)
place_or_none = Where (is_member, place, no_rows)
member = Gather <axis = 0> (order_and_none, place_or_none)
one_row_shape = Concat <axis = 0> (i1, columns)
"""
"""The row of each member of each segment, [S, most]; E where there is none."""

_SUM_ROWS = """
zero_row = Expand (nought, one_row_shape)
table_and_zero = Concat <axis = 0> (table, zero_row)
members = Gather <axis = 0> (table_and_zero, member)
"""

_EXTREME_ROWS = """
least = Constant <value = float {-3.4e38}> ()
two = Constant <value = float {10}> ()
least_of_all = Mul (least, two)
is_nan = IsNaN (table_signed)
table_known = Where (is_nan, least_of_all, table_signed)
least_row = Expand (least_of_all, one_row_shape)
table_and_least = Concat <axis = 0> (table_known, least_row)
members = Gather <axis = 0> (table_and_least, member)
"""

_MEAN = """
is_some_number = Cast <to = 9> (counts)
counts_or_one = Where (is_some_number, counts, i1)
counts_float = Cast <to = 1> (counts_or_one)
counts_float_column = Reshape (counts_float, segment_column)
reduced = Div (total, counts_float_column)
"""

_OUTPUT = """
has_rows = Cast <to = 9> (counts_column)
reduced_or_zero = Where (has_rows, reduced, nought)
output_shape = Concat <axis = 0> (segments, other_sizes)
"""

_ORIGIN_OF_EACH = """
best = ArgMax <axis = 1, keepdims = 0> (members)
origin_rows = GatherElements <axis = 1> (member, best)
origin_or_none = Where (has_rows, origin_rows, rows)
origin = Reshape (origin_or_none, output_shape)
"""

WIDE = """
other_is = Cast <to = 9> (other_sizes)
ones_like = Where (other_is, i1, i1)
ones_shape = Concat <axis = 0> (segments, ones_like)
"""
"""The shape [S, 1, ...] of a number for each segment."""

_COUNTS = f"""{WIDE}origin = Reshape (counts, ones_shape)
"""
