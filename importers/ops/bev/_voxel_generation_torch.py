"""Computes the sorting of points into voxels in PyTorch, all points at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtsmith.importers.opdef import Fields


def torch_voxel_generation(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Cells become groups by unique, groups are put in the order of their first points, points by a stable sort."""
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
