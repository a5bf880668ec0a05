"""TopK in other operators of ONNX: a Loop takes the best element that is left of every row, and notes its rank.

A NaN has no place among numbers: it is taken before them where the largest are wanted, and after them otherwise.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion

_NUMBERS = {"float32": 1, "int32": 6, "int64": 7, "float16": 10, "bfloat16": 16}


def expand(expansion: Expansion) -> str:
    """onnxruntime compares float32 and int64, which hold the other types of elements."""
    whole = expansion.dtype in ("int32", "int64")
    axis, largest = expansion.fields["axis"], expansion.fields["largest"]
    behind = axis + 1 if axis != -1 else 2**63 - 1
    first, second = ("nan", "number") if largest else ("number", "nan")
    extreme = _EXTREMES[whole, bool(largest)]
    return "\n".join(
        (
            _ROWS.format(axis=axis, behind=behind, count=expansion.fields["k"], into=7 if whole else 1),
            extreme,
            "is_nan = Equal (never_first, never_second)" if whole else "is_nan = IsNaN (rows)",
            _LOOP.format(arg="ArgMax" if largest else "ArgMin", first=first, second=second),
            _OUTPUTS.format(dtype=_NUMBERS[expansion.dtype]),
        )
    )


_ROWS = """
zero = Constant <value = int64[1] {{0}}> ()
one = Constant <value = int64[1] {{1}}> ()
axis = Constant <value = int64[1] {{{axis}}}> ()
behind = Constant <value = int64[1] {{{behind}}}> ()
end = Constant <value = int64[1] {{9223372036854775807}}> ()
count = Constant <value = int64[1] {{{count}}}> ()
count_alone = Constant <value = int64 {{{count}}}> ()
unit = Constant <value = int64 {{1}}> ()
go = Constant <value = bool {{1}}> ()
sizes = Shape (x)
size = Gather <axis = 0> (sizes, axis)
outer_sizes = Slice (sizes, zero, axis)
inner_sizes = Slice (sizes, behind, end)
outer_some = Concat <axis = 0> (one, outer_sizes)
inner_some = Concat <axis = 0> (one, inner_sizes)
outer = ReduceProd <keepdims = 1> (outer_some)
inner = ReduceProd <keepdims = 1> (inner_some)
rows_shape = Concat <axis = 0> (outer, size, inner)
given = Cast <to = {into}> (x)
rows = Reshape (given, rows_shape)
ones = ConstantOfShape <value = int64[1] {{1}}> (rows_shape)
never_first = ConstantOfShape <value = int64[1] {{0}}> (rows_shape)
never_second = Identity (ones)
place_axis = Constant <value = int64 {{1}}> ()
places = CumSum <exclusive = 1> (ones, place_axis)
open_first = Equal (ones, ones)
ranks_first = Mul (ones, count)"""
"""x as [outer, size, inner], places along the axis, and a rank behind the last for all."""

_LOOP = """
open_left, ranks = Loop <body = take_best (int64 i, bool keep, bool[o, n, m] open, int64[o, n, m] rank)
    => (bool go_on, bool[o, n, m] open_next, int64[o, n, m] rank_next) {{
go_on = Identity (keep)
is_number = Not (is_nan)
open_number = And (open, is_number)
open_nan = And (open, is_nan)
only_numbers = Where (open_number, rows, extreme)
top = {arg} <axis = 1, keepdims = 1> (only_numbers)
top_value = GatherElements <axis = 1> (only_numbers, top)
as_good = Equal (rows, top_value)
best_numbers = And (as_good, open_number)
flags_number = Cast <to = 6> (best_numbers)
best_number = ArgMax <axis = 1, keepdims = 1> (flags_number)
any_number = GatherElements <axis = 1> (open_number, best_number)
flags_nan = Cast <to = 6> (open_nan)
best_nan = ArgMax <axis = 1, keepdims = 1> (flags_nan)
any_nan = GatherElements <axis = 1> (open_nan, best_nan)
best = Where (any_{first}, best_{first}, best_{second})
itself = Equal (places, best)
others = Not (itself)
open_next = And (open, others)
rank_next = Where (itself, i, rank)
}}> (count_alone, go, open_first, ranks_first)"""

_OUTPUTS = """
all_ranks = Add (count, one)
table_shape = Concat <axis = 0> (outer, all_ranks, inner)
table = ConstantOfShape <value = int64[1] {{0}}> (table_shape)
filled = ScatterElements <axis = 1> (table, ranks, places)
chosen = Slice (filled, zero, count, one)
chosen_rows = GatherElements <axis = 1> (rows, chosen)
results_shape = Concat <axis = 0> (outer_sizes, count, inner_sizes)
wide_values = Reshape (chosen_rows, results_shape)
values = Cast <to = {dtype}> (wide_values)
indices = Reshape (chosen, results_shape)"""

_EXTREMES = {
    (False, True): "nought = Constant <value = float {0.0}> ()\nextreme = Log (nought)",
    (
        False,
        False,
    ): "nought = Constant <value = float {0.0}> ()\nlowest = Log (nought)\nextreme = Neg (lowest)",
    (True, True): "extreme = Constant <value = int64 {-9223372036854775808}> ()",
    (True, False): "extreme = Constant <value = int64 {9223372036854775807}> ()",
}
