"""Expands the sum of weighted features over intervals of points into standard ONNX operators."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.bev._cells_onnx import last_owners

SUM_AXES_INPUT = 13
"""First opset in which the axes of ReduceSum are an input."""

_POINTS = """
none = Constant <value = int64[1] {-1}> ()
i0 = Constant <value = int64[1] {0}> ()
i1 = Constant <value = int64[1] {1}> ()
zero = Constant <value = int64 {0}> ()
one = Constant <value = int64 {1}> ()
nought = Constant <value = float[1] {0}> ()
starts = Cast <to = 7> (interval_starts)
lengths = Cast <to = 7> (interval_lengths)
point_sizes = Shape (ranks_bev)
points = Reshape (point_sizes, i1)
start_negative = Less (starts, i0)
start_before_end = Less (starts, points)
start_not_negative = Not (start_negative)
start_exists = And (start_not_negative, start_before_end)
some_points = Greater (lengths, i0)
usable = And (start_exists, some_points)
left = Sub (points, starts)
too_long = Less (left, lengths)
shorter = Where (too_long, left, lengths)
count = Where (usable, shorter, i0)
first = Where (usable, starts, points)
counts = Concat <axis = 0> (count, i1)
most = ReduceMax <keepdims = 0> (counts)
offsets = Range (zero, most, one)
interval_sizes = Shape (starts)
column = Concat <axis = 0> (interval_sizes, i1)
count_column = Reshape (count, column)
first_column = Reshape (first, column)
covered = Less (offsets, count_column)
place = Add (first_column, offsets)
point = Where (covered, place, points)
"""
"""Positions [I, most] of the intervals' points; where an interval has fewer, that of one behind the last."""

_SUMS = """
depth_ranks = Cast <to = 7> (ranks_depth)
feat_ranks = Cast <to = 7> (ranks_feat)
depth_ranks_all = Concat <axis = 0> (depth_ranks, none)
feat_ranks_all = Concat <axis = 0> (feat_ranks, none)
depth_rank = Gather <axis = 0> (depth_ranks_all, point)
feat_rank = Gather <axis = 0> (feat_ranks_all, point)
depth_flat = Reshape (depth, none)
depth_sizes = Shape (depth_flat)
depths = Reshape (depth_sizes, i1)
feat_shape = Shape (feat)
last_start = Constant <value = int64[1] {3}> ()
last_end = Constant <value = int64[1] {4}> ()
channels = Slice (feat_shape, last_start, last_end)
row_sizes = Slice (feat_shape, i0, last_start)
rows = ReduceProd <keepdims = 1> (row_sizes)
table_shape = Concat <axis = 0> (rows, channels)
feat_table = Reshape (feat, table_shape)
zero_shape = Concat <axis = 0> (i1, channels)
zero_row = Expand (nought, zero_shape)
depth_table = Concat <axis = 0> (depth_flat, nought)
feat_rows = Concat <axis = 0> (feat_table, zero_row)
depth_negative = Less (depth_rank, i0)
feat_negative = Less (feat_rank, i0)
depth_before_end = Less (depth_rank, depths)
feat_before_end = Less (feat_rank, rows)
some_negative = Or (depth_negative, feat_negative)
both_before_end = And (depth_before_end, feat_before_end)
none_negative = Not (some_negative)
both_exist = And (none_negative, both_before_end)
depth_place = Where (both_exist, depth_rank, depths)
feat_place = Where (both_exist, feat_rank, rows)
weight = Gather <axis = 0> (depth_table, depth_place)
weight_sizes = Shape (weight)
weight_shape = Concat <axis = 0> (weight_sizes, i1)
weight_column = Reshape (weight, weight_shape)
features = Gather <axis = 0> (feat_rows, feat_place)
weighted = Mul (features, weight_column)
"""

_CELLS = """
cell_ranks = Cast <to = 7> (ranks_bev)
cell_ranks_all = Concat <axis = 0> (cell_ranks, none)
cell_given = Gather <axis = 0> (cell_ranks_all, first)
cell_negative = Less (cell_given, i0)
cell_before_end = Less (cell_given, cells)
cell_not_negative = Not (cell_negative)
cell_exists = And (cell_not_negative, cell_before_end)
cell = Where (cell_exists, cell_given, cells)
"""
"""The cell of each interval, `cells` where it has none."""


def expand_bev_pool(expansion: Expansion) -> str:
    """The sums of all intervals, as long as the longest, and each cell's from the last interval that it has."""
    fields = expansion.fields
    sizes = [fields["output_planes"], fields["output_height"], fields["output_width"]]
    cells = sizes[0] * sizes[1] * sizes[2]
    if expansion.opset >= SUM_AXES_INPUT:
        total = "ReduceSum <keepdims = 0> (weighted, i1)"
    else:
        total = "ReduceSum <axes = [1], keepdims = 0> (weighted)"
    return f"""
cells = Constant <value = int64[1] {{{cells}}}> ()
{_POINTS}{_SUMS}{_CELLS}
sums = {total}
sums_all = Concat <axis = 0> (zero_row, sums)
{last_owners(expansion.opset)}
pooled = Gather <axis = 0> (sums_all, owner)
grid = Constant <value = int64[3] {{{", ".join(map(str, sizes))}}}> ()
output_shape = Concat <axis = 0> (grid, channels)
output = Reshape (pooled, output_shape)
"""
