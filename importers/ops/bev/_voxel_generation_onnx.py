"""Expands the sorting of points into voxels into standard ONNX operators."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.opdef import Expansion

SUM_AXES_INPUT = 13
"""First opset in which the axes of ReduceSum are an input."""


def expand_voxel_generation(expansion: Expansion) -> str:
    fields = expansion.fields
    ends = np.array(fields["point_cloud_range"], np.float32)
    size = np.array(fields["voxel_size"], np.float32)
    grid = np.rint((ends[3:] - ends[:3]) / size).astype(np.int64)
    along = [1, int(grid[0]), 0 if fields["pillars"] else int(grid[0] * grid[1])]
    frame_cells = int(grid[0] * grid[1]) * (1 if fields["pillars"] else int(grid[2]))

    def floats(values: np.ndarray) -> str:
        return ", ".join(repr(float(value)) for value in values)

    return f"""
low = Constant <value = float[3] {{{floats(ends[:3])}}}> ()
high = Constant <value = float[3] {{{floats(ends[3:])}}}> ()
size = Constant <value = float[3] {{{floats(size)}}}> ()
grid = Constant <value = float[3] {{{floats(grid[:2])}, {"3e38" if fields["pillars"] else floats(grid[2:])}}}> ()
along = Constant <value = int64[3] {{{", ".join(map(str, along))}}}> ()
upwards = Constant <value = int64[3] {{1, 1, {int(not fields["pillars"])}}}> ()
frame_cells = Constant <value = int64[1] {{{frame_cells}}}> ()
max_points = Constant <value = int64[1] {{{fields["max_points"]}}}> ()
max_voxels = Constant <value = int64[1] {{{fields["max_voxels"]}}}> ()
features = Constant <value = int64[1] {{{fields["features"]}}}> ()
{_CELLS}
is_of_frame = Equal (frame_column, group_frame)
is_of_frame_number = Cast <to = 7> (is_of_frame)
{_sum("in_frame", "is_of_frame_number", "i1", expansion.opset, keepdims=0)}
{_PLACES}
{_sum("position_sum", "position_of_each", "i1", expansion.opset, keepdims=1)}
{_NUMBERS}"""


def _sum(result: str, values: str, axis: str, opset: int, *, keepdims: int) -> str:
    """Over axis 1."""
    if opset >= SUM_AXES_INPUT:
        return f"{result} = ReduceSum <keepdims = {keepdims}> ({values}, {axis})"
    return f"{result} = ReduceSum <axes = [1], keepdims = {keepdims}> ({values})"


_CELLS = """
i0 = Constant <value = int64[1] {0}> ()
i1 = Constant <value = int64[1] {1}> ()
i2 = Constant <value = int64[1] {2}> ()
i3 = Constant <value = int64[1] {3}> ()
none = Constant <value = int64 {0}> ()
unit = Constant <value = int64 {1}> ()
two = Constant <value = int64 {2}> ()
nought = Constant <value = float[1] {0}> ()
half = Constant <value = float[1] {0.5}> ()
sizes = Shape (points)
frames = Slice (sizes, i0, i1)
frame_points = Slice (sizes, i1, i2)
width = Slice (sizes, i2, i3)
all_points = Mul (frames, frame_points)
table_shape = Concat <axis = 0> (all_points, width)
table = Reshape (points, table_shape)
position = Slice (table, i0, i3, i1)
steps_in = Sub (position, low)
steps = Div (steps_in, size)
steps_whole = Floor (steps)
too_low = Less (position, low)
high_enough = Not (too_low)
low_enough = Less (position, high)
on_grid = Less (steps_whole, grid)
between = And (high_enough, low_enough)
inside_axis = And (between, on_grid)
inside_x = Gather <axis = 1> (inside_axis, none)
inside_y = Gather <axis = 1> (inside_axis, unit)
inside_z = Gather <axis = 1> (inside_axis, two)
inside_xy = And (inside_x, inside_y)
inside_xyz = And (inside_xy, inside_z)
points_end = Squeeze (all_points)
numbers = Range (none, points_end, unit)
has_points = Cast <to = 9> (frame_points)
frame_points_some = Where (has_points, frame_points, i1)
frame = Div (numbers, frame_points_some)
frame_start = Mul (frame, frame_points_some)
number_in_frame = Sub (numbers, frame_start)
counts_wide = Cast <to = 7> (num_points)
count_of_frame = Gather <axis = 0> (counts_wide, frame)
counted = Less (number_in_frame, count_of_frame)
inside = And (inside_xyz, counted)
found = Compress <axis = 0> (numbers, inside)
found_frame = Gather <axis = 0> (frame, found)
found_steps = Gather <axis = 0> (steps_whole, found)
steps_number = Cast <to = 7> (found_steps)
place = Mul (steps_number, upwards)
place_cells = Mul (place, along)
cell_x = Gather <axis = 1> (place_cells, none)
cell_y = Gather <axis = 1> (place_cells, unit)
cell_z = Gather <axis = 1> (place_cells, two)
cell_xy = Add (cell_x, cell_y)
cell_in_frame = Add (cell_xy, cell_z)
frame_cell = Mul (found_frame, frame_cells)
cell = Add (frame_cell, cell_in_frame)
cells_of_groups, first, group, group_points = Unique <sorted = 0> (cell)
found_groups = Shape (first)
group_frame = Gather <axis = 0> (found_frame, first)
frames_end = Squeeze (frames)
frame_numbers = Range (none, frames_end, unit)
frame_column_shape = Concat <axis = 0> (frames, i1)
frame_column = Reshape (frame_numbers, frame_column_shape)
"""
"""The points that count, their cells, and groups of equal cells in the order of their first points."""

_PLACES = """
before_frame = CumSum <exclusive = 1> (in_frame, none)
groups_end = Squeeze (found_groups)
group_numbers = Range (none, groups_end, unit)
group_base = Gather <axis = 0> (before_frame, group_frame)
group_voxel = Sub (group_numbers, group_base)
found_sizes = Shape (found)
group_in_order, order = TopK <axis = 0, largest = 0, sorted = 1> (group, found_sizes)
found_end = Squeeze (found_sizes)
order_numbers = Range (none, found_end, unit)
group_starts = CumSum <exclusive = 1> (group_points, none)
group_start = Gather <axis = 0> (group_starts, group_in_order)
within = Sub (order_numbers, group_start)
voxel = Gather <axis = 0> (group_voxel, group_in_order)
voxel_frame = Gather <axis = 0> (group_frame, group_in_order)
voxel_fits = Less (voxel, max_voxels)
point_fits = Less (within, max_points)
fits = And (voxel_fits, point_fits)
voxel_base = Mul (voxel_frame, max_voxels)
room = Add (voxel_base, voxel)
room_places = Mul (room, max_points)
slot = Add (room_places, within)
slot_kept = Compress <axis = 0> (slot, fits)
found_in_order = Gather <axis = 0> (found, order)
found_kept = Compress <axis = 0> (found_in_order, fits)
rows = Gather <axis = 0> (table, found_kept)
kept_sizes = Shape (slot_kept)
kept_column = Concat <axis = 0> (kept_sizes, i1)
slot_column = Reshape (slot_kept, kept_column)
rooms = Mul (frames, max_voxels)
slots = Mul (rooms, max_points)
empty_shape = Concat <axis = 0> (slots, width)
empty = Expand (nought, empty_shape)
filled = ScatterND (empty, slot_column, rows)
group_fits = Less (group_voxel, max_voxels)
group_frame_base = Mul (group_frame, max_voxels)
group_room = Add (group_frame_base, group_voxel)
group_room_kept = Compress <axis = 0> (group_room, group_fits)
group_kept_sizes = Shape (group_room_kept)
group_kept_column = Concat <axis = 0> (group_kept_sizes, i1)
group_room_column = Reshape (group_room_kept, group_kept_column)
too_many = Less (max_points, group_points)
group_points_some = Where (too_many, max_points, group_points)
group_points_kept = Compress <axis = 0> (group_points_some, group_fits)
no_points = Expand (i0, rooms)
room_points = ScatterND (no_points, group_room_column, group_points_kept)
group_place = Gather <axis = 0> (place, first)
group_place_kept = Compress <axis = 0> (group_place, group_fits)
place_shape = Concat <axis = 0> (rooms, i3)
no_place = Expand (i0, place_shape)
room_place = ScatterND (no_place, group_room_column, group_place_kept)
dense_shape = Concat <axis = 0> (rooms, max_points, width)
dense = Reshape (filled, dense_shape)
position_of_each = Slice (dense, i0, i3, i2)
"""
"""Each point's place among its group's points, in their order, and the points in their rooms."""

_NUMBERS = """
is_room = Cast <to = 9> (room_points)
points_or_one = Where (is_room, room_points, i1)
points_float = Cast <to = 1> (points_or_one)
room_column = Concat <axis = 0> (rooms, i1, i1)
points_column = Reshape (points_float, room_column)
mean = Div (position_sum, points_column)
from_mean = Sub (position_of_each, mean)
place_float = Cast <to = 1> (room_place)
place_middle = Add (place_float, half)
middle_in = Mul (place_middle, size)
middle = Add (middle_in, low)
middle_shape = Concat <axis = 0> (rooms, i1, i3)
middle_column = Reshape (middle, middle_shape)
from_middle = Sub (position_of_each, middle_column)
all_numbers = Concat <axis = 2> (dense, from_mean, from_middle)
chosen = Slice (all_numbers, i0, features, i2)
max_points_end = Squeeze (max_points)
point_numbers = Range (none, max_points_end, unit)
point_shape = Concat <axis = 0> (i1, max_points, i1)
point_column = Reshape (point_numbers, point_shape)
room_points_column = Reshape (room_points, room_column)
is_point = Less (point_column, room_points_column)
counted_numbers = Where (is_point, chosen, nought)
voxels_shape = Concat <axis = 0> (frames, max_voxels, max_points, features)
voxels = Reshape (counted_numbers, voxels_shape)
place_x = Slice (room_place, i0, i1, i1)
place_y = Slice (room_place, i1, i2, i1)
place_z = Slice (room_place, i2, i3, i1)
frame_shape = Concat <axis = 0> (rooms, i1)
place_frame = Expand (i0, frame_shape)
coords_wide = Concat <axis = 1> (place_frame, place_z, place_y, place_x)
coords_number = Cast <to = 6> (coords_wide)
i4 = Constant <value = int64[1] {4}> ()
coords_shape = Concat <axis = 0> (frames, max_voxels, i4)
coords = Reshape (coords_number, coords_shape)
counts_number = Cast <to = 6> (room_points)
counts_shape = Concat <axis = 0> (frames, max_voxels)
point_counts = Reshape (counts_number, counts_shape)
more_than_fit = Less (max_voxels, in_frame)
in_frame_some = Where (more_than_fit, max_voxels, in_frame)
num_voxels = Cast <to = 6> (in_frame_some)
"""
