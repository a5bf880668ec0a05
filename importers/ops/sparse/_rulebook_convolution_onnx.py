"""Expands the convolution along a rulebook into standard ONNX operators: a loop over the taps of the kernel."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> str:
    """Rows gathered and multiplied tap by tap, so that no more than one tap's rows are held at a time."""
    result = "total = Add (sum, bias)" if "bias" in expansion.present else "total = Identity (sum)"
    slope = float(expansion.fields["slope"])
    activation = ("Identity", "Relu", "Sigmoid", f"LeakyRelu <alpha = {slope!r}>")[
        expansion.fields["activation"]
    ]
    return f"""
i0 = Constant <value = int64[1] {{0}}> ()
i1 = Constant <value = int64[1] {{1}}> ()
i2 = Constant <value = int64[1] {{2}}> ()
go = Constant <value = bool {{1}}> ()
nought = Constant <value = float {{0}}> ()
nought_row = Constant <value = float[1] {{0}}> ()
no_row = Constant <value = int64 {{0}}> ()
feature_sizes = Shape (features)
feature_rows = Slice (feature_sizes, i0, i1)
channels = Slice (feature_sizes, i1, i2)
weight_sizes = Shape (weights)
filters = Slice (weight_sizes, i0, i1)
pair_sizes = Shape (pairs)
taps = Slice (pair_sizes, i0, i1)
rows = Slice (pair_sizes, i1, i2)
empty_shape = Concat <axis = 0> (i1, channels)
empty_row = Expand (nought_row, empty_shape)
table = Concat <axis = 0> (features, empty_row)
all_pairs = Cast <to = 7> (pairs)
negative = Less (all_pairs, no_row)
not_negative = Not (negative)
before_end = Less (all_pairs, feature_rows)
there = And (not_negative, before_end)
row_of_each = Where (there, all_pairs, feature_rows)
by_tap_shape = Concat <axis = 0> (filters, taps, channels)
by_tap = Reshape (weights, by_tap_shape)
matrices = Transpose <perm = [1, 2, 0]> (by_tap)
sum_shape = Concat <axis = 0> (rows, filters)
start = Expand (nought_row, sum_shape)
column_shape = Concat <axis = 0> (rows, i1)
count = Squeeze (taps)
sum = Loop <body = add_tap (int64 i, bool keep, float[m, o] before) => (bool keep_on, float[m, o] after) {{
  keep_on = Identity (keep)
  row = Gather <axis = 0> (row_of_each, i)
  read = Gather <axis = 0> (table, row)
  matrix = Gather <axis = 0> (matrices, i)
  product = MatMul (read, matrix)
  has_row = Gather <axis = 0> (there, i)
  has_column = Reshape (has_row, column_shape)
  counted = Where (has_column, product, nought)
  after = Add (before, counted)
}}> (count, go, start)
{result}
output = {activation} (total)"""
