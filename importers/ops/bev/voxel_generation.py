"""Sorts the points of LiDAR frames into the cells of a grid (Zhou and Tuzel, VoxelNet, arXiv 1711.06396, 2.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Operand, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
    attrs,
)
from trtsmith.importers.ops._shared import flag, size_faults, size_of
from trtsmith.importers.ops.bev._voxel_generation_cases import BENCHMARKS, CASES

_NONE = np.zeros(1, np.float32)


def expand_voxel_generation(expansion: Expansion) -> tuple[Value, ...]:
    """Groups the points by cell, in the order of first points, and writes each to its place in its voxel."""
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
        """Writes the groups' numbers to their voxels, and 0 to the others."""
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


def torch_voxel_generation(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Groups points by cell with unique, orders groups by their first points, and sorts points stably."""
    import torch

    points, most, features = inputs["points"], fields["max_points"], fields["features"]
    frames, count, _ = points.shape
    rooms = frames * fields["max_voxels"]
    index = {"device": points.device, "dtype": torch.int64}
    single = {"device": points.device, "dtype": torch.float32}
    low = torch.tensor(fields["point_cloud_range"][:3], **single)
    high = torch.tensor(fields["point_cloud_range"][3:], **single)
    size = torch.tensor(fields["voxel_size"], **single)
    grid = torch.round((high - low) / size).long()
    position = points[..., :3].float()
    place = torch.floor((position - low) / size)
    if fields["pillars"]:
        grid[2] = 1
        place[..., 2] = 0
    counted = torch.arange(count, **index) < inputs["num_points"][:, None]
    inside = counted & ((position >= low) & (position < high) & (place < grid)).all(-1)
    frame = torch.arange(frames, **index)[:, None].expand(frames, count)[inside]
    place, rows = place[inside].long(), points[inside]
    cell = ((frame * grid[2] + place[:, 2]) * grid[1] + place[:, 1]) * grid[0] + place[:, 0]

    groups, group = torch.unique(cell, return_inverse=True)
    number = torch.arange(len(cell), **index)
    first = torch.full((len(groups),), len(cell), **index).scatter_reduce_(0, group, number, "amin")
    order = torch.argsort(first)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(groups), **index))
    pillar, begins = rank[group], frame[first[order]]
    frame_starts = torch.searchsorted(begins, torch.arange(frames + 1, **index))
    voxel = pillar - frame_starts[frame]
    by_pillar = torch.argsort(pillar, stable=True)
    ordered = pillar[by_pillar]
    within = torch.empty_like(number)
    within[by_pillar] = number - torch.searchsorted(ordered, ordered)

    kept = (voxel < fields["max_voxels"]) & (within < most)
    room = frame[kept] * fields["max_voxels"] + voxel[kept]
    rows, place = rows[kept], place[kept]
    points_of = torch.zeros(rooms, **index).index_add_(0, room, torch.ones_like(room))
    sums = torch.zeros(rooms, 3, dtype=points.dtype, device=points.device).index_add_(0, room, rows[:, :3])
    mean = (sums / points_of[:, None].clamp(min=1).to(points.dtype))[room]
    middle = low.to(points.dtype) + (place.to(points.dtype) + 0.5) * size.to(points.dtype)
    numbers = torch.cat([rows, rows[:, :3] - mean, rows[:, :3] - middle], 1)[:, :features]
    voxels = torch.zeros(rooms * most, features, dtype=points.dtype, device=points.device)
    voxels[room * most + within[kept]] = numbers
    coords = torch.zeros(rooms, 4, dtype=torch.int32, device=points.device)
    coords[room, 1:] = place.flip(-1).int()
    found = (frame_starts[1:] - frame_starts[:-1]).clamp(max=fields["max_voxels"])
    return (
        voxels.reshape(frames, fields["max_voxels"], most, features),
        coords.reshape(frames, fields["max_voxels"], 4),
        points_of.reshape(frames, fields["max_voxels"]).int(),
        found.int(),
    )


MOST_CELLS = 2**31


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    frames, voxels = shapes["points"][0], fields["max_voxels"]
    return {
        "voxels": (frames, voxels, fields["max_points"], fields["features"]),
        "coords": (frames, voxels, 4),
        "point_counts": (frames, voxels),
        "num_voxels": (frames,),
    }


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def _grid(fields: Fields) -> np.ndarray:
    """Cells along x, y and z, in float32 as kernels have them; infinite or no number where there is no grid."""
    ends = np.array(fields["point_cloud_range"], np.float32)
    cells: np.ndarray = np.rint((ends[3:] - ends[:3]) / np.array(fields["voxel_size"], np.float32))
    if fields["pillars"]:
        cells[2] = 1
    return cells


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    low, high = fields["point_cloud_range"][:3], fields["point_cloud_range"][3:]
    for axis, (start, end, size) in enumerate(zip(low, high, fields["voxel_size"], strict=True)):
        if not (start < end and math.isfinite(end - start)):
            faults.append(f"point_cloud_range goes from {start:g} to {end:g} along {'xyz'[axis]}")
        if not size > 0:
            faults.append(f"voxel_size[{axis}] = {size:g}, not above 0")
    if not faults:
        cells = _grid(fields)
        if not (cells >= 1).all() or not float(np.prod(cells)) < MOST_CELLS:
            faults.append(f"the grid has {'x'.join(f'{n:g}' for n in cells)} cells, not 1 to 2^31 - 1")
    faults += size_faults(shapes, ("num_points", 0, "points", 0))
    width = size_of(shapes, "points", 2)
    if width is not None and width < 3:
        faults.append(f"points[2] = {width}, but a point has x, y and z")
    elif width is not None and fields["features"] > width + 6:
        faults.append(
            f"features = {fields['features']}, but a point of {width} numbers has {width + 6} with the offsets"
        )
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One point after the other. Cells are decided in float32."""
    points = inputs["points"]
    frames, most, _ = points.shape
    voxels = np.zeros((frames, fields["max_voxels"], fields["max_points"], fields["features"]))
    coords = np.zeros((frames, fields["max_voxels"], 4), np.int32)
    counts = np.zeros((frames, fields["max_voxels"]), np.int32)
    number = np.zeros(frames, np.int32)
    low, high = np.split(np.array(fields["point_cloud_range"], np.float32), 2)
    size, grid = np.array(fields["voxel_size"], np.float32), _grid(fields)
    for frame in range(frames):
        given = points[frame, : max(0, min(most, int(inputs["num_points"][frame])))]
        positions = given[:, :3].astype(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            places = np.floor((positions - low) / size)
            if fields["pillars"]:
                places[:, 2] = 0
            inside = ((positions >= low) & (positions < high) & (places < grid)).all(axis=1)
        cells: dict[tuple[int, ...], list[int]] = {}
        for point in np.flatnonzero(inside):
            cells.setdefault(tuple(int(place) for place in places[point]), []).append(int(point))
        for voxel, (cell, members) in enumerate(list(cells.items())[: fields["max_voxels"]]):
            kept = given[members[: fields["max_points"]]].astype(np.float64)
            middle = low.astype(np.float64) + (np.array(cell) + 0.5) * size
            offsets = [kept[:, :3] - kept[:, :3].mean(axis=0), kept[:, :3] - middle]
            numbers = np.concatenate([kept, *offsets], axis=1)
            voxels[frame, voxel, : len(kept)] = numbers[:, : fields["features"]]
            coords[frame, voxel, 1:] = cell[::-1]
            counts[frame, voxel] = len(kept)
        number[frame] = min(len(cells), fields["max_voxels"])
    return {"voxels": voxels, "coords": coords, "point_counts": counts, "num_voxels": number}


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Little is computed; an operation is counted for each element that is read or written."""
    return Work(flops=math.prod(shapes["points"]) + math.prod(shapes["voxels"]))


def _nvidia_guard(node: AliasedNode) -> Refusal | None:
    ends, size = node.attrs["point_cloud_range"], node.attrs["voxel_size"]
    if all(low < high for low, high in zip(ends[:3], ends[3:], strict=True)) and min(size) > 0:
        return None
    return Refusal(
        f"point_cloud_range = {list(ends)} with voxel_size = {list(size)}",
        "point_cloud_range: the smallest x, y and z, then the largest; voxel_size above 0",
        "correct the two where the model is exported",
    )


def _nvidia_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "max_points": a["max_num_points_per_voxel"],
        "max_voxels": a["max_voxels"],
        "features": a["voxel_feature_num"],
        "point_cloud_range": a["point_cloud_range"],
        "voxel_size": a["voxel_size"],
        "pillars": 1,
    }


VOXEL_GENERATION = OpDef(
    name="VoxelGeneration",
    doc=(
        "The points of LiDAR frames sorted into the cells of a grid, as mmcv's deterministic hard voxelization does it: "
        "voxels in the order of their first points, points of a voxel in their own order, and what is too much of either "
        "left out. A point counts if it is among the frame's first num_points and in the range, the end excluded: one "
        "that is no number counts as nothing. What holds no point is zero."
    ),
    inputs=(
        Port("points", "T", 3, "[N, P, F] of which the first three are x, y and z", positions=True),
        Port("num_points", "S", 1, "[N] how many of a frame's points count"),
    ),
    outputs=(
        Port(
            "voxels",
            "T",
            4,
            "[N, max_voxels, max_points, features] of each point its own F numbers, x, y and z from the mean of the "
            "voxel's points, and x, y and z from the middle of its cell; the first `features` of these",
        ),
        Port("coords", "S", 3, "[N, max_voxels, 4] 0, z, y and x of each voxel's cell"),
        Port("point_counts", "S", 2, "[N, max_voxels] how many points a voxel holds"),
        Port("num_voxels", "S", 1, "[N] how many voxels a frame has"),
    ),
    fields=(
        Field("max_points", Kind.INT, "points of a voxel, at most", minimum=1),
        Field("max_voxels", Kind.INT, "voxels of a frame, at most", minimum=1),
        Field("features", Kind.INT, "numbers of a point in a voxel; F: its own alone", minimum=1),
        Field("point_cloud_range", Kind.FLOATS, "where x, y and z begin, and where they end", length=6),
        Field("voxel_size", Kind.FLOATS, "of a cell, along x, y and z", length=3),
        flag("pillars", "1: cells are not divided along z"),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=torch_voxel_generation,
    expand=expand_voxel_generation,
    aliases=(
        Alias(
            op_type="VoxelGeneratorPlugin",
            domains=("trt", "TRT"),
            inputs=("points", "num_points"),
            outputs=("voxels", "coords", "num_voxels"),
            attributes=(
                *attrs(max_num_points_per_voxel=int, max_voxels=int),
                Attr("point_cloud_range", Kind.FLOATS, lengths=(6,)),
                Attr("voxel_feature_num", Kind.INT),
                Attr("voxel_size", Kind.FLOATS, lengths=(3,)),
            ),
            guard=_nvidia_guard,
            fields=_nvidia_fields,
            source=(
                "NVIDIA TensorRT OSS, voxelGeneratorPlugin, whose order of pillars and of their points differs from run to "
                "run; with points of five numbers its kernel reads coordinates and z of other places"
            ),
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 2e-4, "bfloat16": 2e-3},
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
    float32_only="16 bits place a point 70 m away within 3 to 25 cm only, and cells are that small",
)
