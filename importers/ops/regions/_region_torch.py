"""Pools regions in PyTorch, all regions of a level with the same number of samples at once, in the inputs' dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM, MOST_GRID, Geometry


def pool_regions_torch(features: Sequence[Any], regions: Any, geometry: Geometry, offsets: Any = None) -> Any:
    """Pools [K, C, PH, PW] from features [N, C, H, W], one for each level, by regions [K, 5 or 6]."""
    import torch

    channels = features[0].shape[1] // (geometry.bins if geometry.by_position else 1)
    shape = (regions.shape[0], channels, geometry.output_height, geometry.output_width)
    images = regions[:, 0]
    usable = torch.isfinite(regions[:, 1:]).all(1) & (images > -1) & (images < features[0].shape[0])
    regions = torch.where(usable[:, None], regions, torch.zeros_like(regions))
    level = _levels(regions, geometry)
    scale = torch.tensor(geometry.scales, dtype=regions.dtype, device=regions.device)[level][:, None]
    start, size = _boxes(regions, geometry, scale)
    if geometry.sampling_ratio > 0 and len(features) == 1:
        grid = (geometry.sampling_ratio, geometry.sampling_ratio)
        found = _pool(features[0], regions, start, size, grid, geometry, offsets)
        return torch.where(usable[:, None, None, None], found, torch.zeros_like(found))
    bins = torch.tensor([geometry.output_width, geometry.output_height], device=regions.device)
    grids = (
        torch.ceil(size / bins)
        if geometry.sampling_ratio <= 0
        else torch.full_like(size, geometry.sampling_ratio)
    )
    usable = usable & (grids >= 1).all(1) & (grids <= MOST_GRID).all(1)
    output = features[0].new_zeros(shape)
    kinds = torch.cat([level[:, None], torch.where(usable[:, None], grids, 0 * grids).long()], 1)
    for at, columns, rows in torch.unique(kinds[usable], dim=0).tolist():
        members = usable & (kinds == torch.tensor([at, columns, rows], device=kinds.device)).all(1)
        moved = None if offsets is None else offsets[members]
        output[members] = _pool(
            features[at], regions[members], start[members], size[members], (rows, columns), geometry, moved
        )
    return output


def _levels(regions: Any, geometry: Geometry) -> Any:
    """[K]: the level of each region."""
    import torch

    extent = regions[:, 3:5] if geometry.angle_scale is not None else regions[:, 3:5] - regions[:, 1:3]
    size = (extent[:, 0] * extent[:, 1]).clamp_min(0).sqrt() / geometry.finest_scale + 1e-6
    bounds = torch.tensor(
        [2.0**level for level in range(1, len(geometry.scales))], dtype=size.dtype, device=size.device
    )
    return (size[:, None] >= bounds).sum(1)


def _boxes(regions: Any, geometry: Geometry, scale: Any) -> tuple[Any, Any]:
    """[K, 2] each, (x, y) in pixels of the map: the first corner, or the centre of rotated boxes; the size."""
    first, second = regions[:, 1:3], regions[:, 3:5]
    if geometry.angle_scale is None:
        if geometry.growth > 0:
            ends = 1 if geometry.growth_counts_ends else 0
            middle = (first + second) * 0.5
            half = (second - first + ends) * (geometry.growth * 0.5) - 0.5 * ends
            first, second = middle - half, middle + half
        size = (second - first) * scale
    else:
        size = second * (geometry.growth if geometry.growth > 0 else 1) * scale
    if geometry.least_size is not None:
        size = size.clamp_min(geometry.least_size)
    return first * scale - geometry.pixel_offset, size


def _pool(
    feature: Any,
    regions: Any,
    start: Any,
    size: Any,
    grid: tuple[int, int],
    geometry: Geometry,
    offsets: Any,
) -> Any:
    """Regions with the same number of samples (rows, columns) on one level."""
    import torch

    def line(axis: int, bins: int, count: int) -> Any:
        """[K, bins, count]: positions along one side, from the first corner."""
        part = torch.arange(bins * count, dtype=size.dtype, device=size.device).reshape(bins, count)
        return size[:, axis, None, None] * ((part + 0.5) / (bins * count))

    y = line(1, geometry.output_height, grid[0])[:, :, None, :, None]
    x = line(0, geometry.output_width, grid[1])[:, None, :, None, :]
    if offsets is not None:
        moved = size[:, :, None, None] * offsets * geometry.offset_scale
        x, y = x + moved[:, 0, :, :, None, None], y + moved[:, 1, :, :, None, None]
    origin = [start[:, axis, None, None, None, None] for axis in (0, 1)]
    if geometry.angle_scale is not None:
        half = [size[:, axis, None, None, None, None] / 2 for axis in (0, 1)]
        angle = (regions[:, 5] * geometry.angle_scale)[:, None, None, None, None]
        x, y = x - half[0], y - half[1]
        y, x = y * angle.cos() - x * angle.sin(), y * angle.sin() + x * angle.cos()
    y, x = torch.broadcast_tensors(y + origin[1], x + origin[0])
    return _sample(feature, regions[:, 0].long(), y, x, geometry)


def _sample(feature: Any, images: Any, y: Any, x: Any, geometry: Geometry) -> Any:
    """[K, C, PH, PW] of positions [K, PH, PW, rows, columns]."""
    import torch

    batch, planes, height, width = feature.shape
    count = y.shape[0]
    channels = planes // (geometry.bins if geometry.by_position else 1)
    if batch * height * width == 0:
        return feature.new_zeros(count, channels, geometry.output_height, geometry.output_width)
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y = torch.where(inside, y, torch.zeros_like(y)).clamp(0, height - 1)
    x = torch.where(inside, x, torch.zeros_like(x)).clamp(0, width - 1)
    top, left = y.floor(), x.floor()
    down, right = y - top, x - left
    if geometry.by_position:
        table = feature.reshape(batch, channels, geometry.bins, height * width).permute(0, 2, 3, 1)
        place = images[:, None] * geometry.bins + torch.arange(geometry.bins, device=images.device)
        place = place.reshape(-1, geometry.output_height, geometry.output_width, 1, 1)
    else:
        table, place = feature.flatten(2).permute(0, 2, 1), images[:, None, None, None, None]
    table = table.reshape(-1, channels)
    place = place * (height * width)

    def corner(below: int, beside: int) -> Any:
        row, column = (top.long() + below).clamp(max=height - 1), (left.long() + beside).clamp(max=width - 1)
        share = (down if below else 1 - down) * (right if beside else 1 - right) * inside
        return table[place + row * width + column] * share[..., None]

    corners = [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)]
    if geometry.pooling in (AVERAGE, MAXIMUM):
        samples = corners[0] + corners[1] + corners[2] + corners[3]
        pooled = samples.mean((3, 4)) if geometry.pooling == AVERAGE else samples.amax((3, 4))
    else:
        pooled = torch.stack(corners).amax((0, 4, 5))
    return pooled.permute(0, 3, 1, 2).contiguous()
