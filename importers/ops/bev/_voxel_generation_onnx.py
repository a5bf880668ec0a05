"""Expands the sorting of points into voxels into standard ONNX operators."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Builder, Operand, Value
from trtsmith.importers.opdef import Expansion

_NONE = np.zeros(1, np.float32)


def expand_voxel_generation(expansion: Expansion) -> tuple[Value, ...]:
    """Groups the points by cell, in the order of first points; places them in their voxels; works out their numbers."""
    g = Builder(expansion.opset)
    fields = expansion.fields
    pillars, features = fields["pillars"], [fields["features"]]
    max_points, max_voxels = [fields["max_points"]], [fields["max_voxels"]]
    ends = np.array(fields["point_cloud_range"], np.float32)
    low, high, size = ends[:3], ends[3:], np.array(fields["voxel_size"], np.float32)
    grid = np.rint((high - low) / size).astype(np.int64)
    columns, rows, levels = (int(count) for count in grid)
    along = np.array([1, columns, 0 if pillars else columns * rows])
    frame_cells = [columns * rows * (1 if pillars else levels)]
    limits = np.array([columns, rows, 3e38 if pillars else levels], np.float32)

    def axes(values: Value) -> list[Value]:
        return [g.Gather(values, axis, axis=1) for axis in range(3)]

    # the points that count, their cells, and groups of equal cells in the order of their first points
    sizes = g.Shape("points")
    frames, frame_points, width = (sizes[i : i + 1] for i in range(3))
    all_points = frames * frame_points
    table = g.Reshape("points", [all_points, width])
    position = g.Slice(table, [0], [3], [1])
    steps = g.Floor((position - low) / size)
    inside_x, inside_y, inside_z = axes(~(position < low) & (position < high) & (steps < limits))
    numbers = g.arange(all_points)
    frame_points_some = g.Where(g.Cast(frame_points, to="bool"), frame_points, [1])
    frame = numbers / frame_points_some
    counts = g.Gather(g.Cast("num_points", to="int64"), frame, axis=0)
    counted = numbers - frame * frame_points_some < counts
    found = g.Compress(numbers, inside_x & inside_y & inside_z & counted, axis=0)
    found_frame = g.Gather(frame, found, axis=0)
    place = g.Cast(g.Gather(steps, found, axis=0), to="int64") * np.array([1, 1, int(not pillars)])
    x, y, z = axes(place * along)
    cell = found_frame * frame_cells + (x + y + z)
    _, first, group, group_points = g.Unique(cell, sorted=0, outputs=4)
    group_frame = g.Gather(found_frame, first, axis=0)
    frame_numbers = g.Reshape(g.arange(frames), [frames, 1])
    in_frame = g.ReduceSum(g.Cast(g.Equal(frame_numbers, group_frame), to="int64"), axes=[1], keepdims=0)

    # each point's place among its group's points, in their order, and the points in their rooms
    group_base = g.Gather(g.CumSum(in_frame, 0, exclusive=1), group_frame, axis=0)
    group_voxel = g.arange(g.Shape(first)) - group_base
    found_sizes = g.Shape(found)
    group, order = g.TopK(group, found_sizes, axis=0, largest=0, sorted=1, outputs=2)
    within = g.arange(found_sizes) - g.Gather(g.CumSum(group_points, 0, exclusive=1), group, axis=0)
    voxel = g.Gather(group_voxel, group, axis=0)
    fits = (voxel < max_voxels) & (within < max_points)
    room = g.Gather(group_frame, group, axis=0) * max_voxels + voxel
    slot = g.Compress(room * max_points + within, fits, axis=0)
    kept = g.Gather(table, g.Compress(g.Gather(found, order, axis=0), fits, axis=0), axis=0)
    rooms = frames * max_voxels
    slots = g.Expand(_NONE, [rooms * max_points, width])
    filled = g.ScatterND(slots, g.Reshape(slot, g.Concat(g.Shape(slot), [1], axis=0)), kept)

    group_fits = group_voxel < max_voxels
    group_room = g.Compress(group_frame * max_voxels + group_voxel, group_fits, axis=0)
    group_room = g.Reshape(group_room, g.Concat(g.Shape(group_room), [1], axis=0))

    def by_room(shape: Operand, values: Value) -> Value:
        """Numbers of groups at their voxels, 0 at the others."""
        return g.ScatterND(g.Expand([0], shape), group_room, g.Compress(values, group_fits, axis=0))

    room_points = by_room(rooms, g.Where(g.Less(max_points, group_points), max_points, group_points))
    room_place = by_room([rooms, 3], g.Gather(place, first, axis=0))

    # the numbers of each point: its own, its distances from the mean of its voxel and from the voxel's middle
    dense = g.Reshape(filled, [rooms, *max_points, width])
    position = g.Slice(dense, [0], [3], [2])
    points_some = g.Where(g.Cast(room_points, to="bool"), room_points, [1])
    room_column = g.vector(rooms, 1, 1)
    mean = g.ReduceSum(position, axes=[1], keepdims=1) / g.Reshape(
        g.Cast(points_some, to="float32"), room_column
    )
    middle = (g.Cast(room_place, to="float32") + np.array([0.5], np.float32)) * size + low
    from_middle = position - g.Reshape(middle, [rooms, 1, 3])
    all_numbers = g.Concat(dense, position - mean, from_middle, axis=2)
    point = g.Reshape(g.arange(max_points), [1, *max_points, 1])
    point_counts = point < g.Reshape(room_points, room_column)
    voxels = g.Where(point_counts, g.Slice(all_numbers, [0], features, [2]), _NONE)
    z_y_x = (g.Slice(room_place, [axis], [axis + 1], [1]) for axis in (2, 1, 0))
    coords = g.Concat(g.Expand([0], [rooms, 1]), *z_y_x, axis=1)
    return (
        g.Reshape(voxels, [frames, *max_voxels, *max_points, *features]),
        g.Reshape(g.Cast(coords, to="int32"), [frames, *max_voxels, 4]),
        g.Reshape(g.Cast(room_points, to="int32"), [frames, *max_voxels]),
        g.Cast(g.Where(g.Less(max_voxels, in_frame), max_voxels, in_frame), to="int32"),
    )
