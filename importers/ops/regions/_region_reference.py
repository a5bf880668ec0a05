"""Pools regions in float64 numpy, one region at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM, MOST_GRID, Geometry


def pool_regions(
    features: Sequence[np.ndarray],
    regions: np.ndarray,
    geometry: Geometry,
    offsets: np.ndarray | None = None,
) -> np.ndarray:
    """Pools [K, C, PH, PW] from features [N, C, H, W], one for each level, by regions [K, 5 or 6]."""
    height, width = geometry.output_height, geometry.output_width
    maps = [feature.astype(np.float64) for feature in features]
    channels = maps[0].shape[1] // (geometry.bins if geometry.by_position else 1)
    output = np.zeros((len(regions), channels, height, width))
    for k, region in enumerate(regions.astype(np.float64)):
        image, coordinates = region[0], region[1:]
        if not np.isfinite(coordinates).all() or not -1 < image < len(maps[0]):
            continue
        level = _level(coordinates, geometry)
        feature = maps[level][int(image)]
        shift = None if offsets is None else offsets[k].astype(np.float64)
        places = _positions(coordinates, geometry, geometry.scales[level], shift)
        if places is not None and feature.size:
            output[k] = _pooled(feature, *places, geometry)
    return output


def _level(coordinates: np.ndarray, geometry: Geometry) -> int:
    """Where the region is read: floor(log2(its size / finest_scale)), at most the last level."""
    width, height = (
        coordinates[2:4] if geometry.angle_scale is not None else coordinates[2:4] - coordinates[:2]
    )
    if width * height <= 0:
        return 0
    level = np.floor(np.log2(np.sqrt(width * height) / geometry.finest_scale + 1e-6))
    return int(np.clip(level, 0, len(geometry.scales) - 1))


def _positions(
    coordinates: np.ndarray, geometry: Geometry, scale: float, shift: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """(y, x) of all samples, [PH, PW, gridY, gridX] each; None where there are none."""
    rotated = geometry.angle_scale is not None
    size = coordinates[2:4] if rotated else coordinates[2:4] - coordinates[:2]
    centre = coordinates[:2] if rotated else coordinates[:2] + size / 2
    if geometry.growth > 0:
        ends = float(geometry.growth_counts_ends)
        size = (size + ends) * geometry.growth - ends
    first = (centre - size / 2) * scale - geometry.pixel_offset
    centre, size = centre * scale - geometry.pixel_offset, size * scale
    if geometry.least_size is not None:
        size = np.maximum(size, geometry.least_size)
    if rotated:
        first = centre - size / 2
    lines = []
    for axis, bins in ((1, geometry.output_height), (0, geometry.output_width)):
        grid = geometry.sampling_ratio if geometry.sampling_ratio > 0 else np.ceil(size[axis] / bins)
        if not 1 <= grid <= MOST_GRID:
            return None
        part = np.arange(bins)[:, None] + (np.arange(int(grid)) + 0.5) / grid
        lines.append(first[axis] + part * size[axis] / bins)
    y, x = lines[0][:, None, :, None], lines[1][None, :, None, :]
    y, x = np.broadcast_arrays(y, x)
    if shift is not None:
        with np.errstate(invalid="ignore"):  # offsets may be infinite: such bins are outside
            moved = geometry.offset_scale * size[:, None, None] * shift
        x, y = x + moved[0][:, :, None, None], y + moved[1][:, :, None, None]
    if geometry.angle_scale is not None:
        angle = coordinates[4] * geometry.angle_scale
        up, right = y - centre[1], x - centre[0]
        y = up * np.cos(angle) - right * np.sin(angle) + centre[1]
        x = up * np.sin(angle) + right * np.cos(angle) + centre[0]
    return y, x


def _pooled(feature: np.ndarray, y: np.ndarray, x: np.ndarray, geometry: Geometry) -> np.ndarray:
    """[C, PH, PW] of a map [C, H, W] and the positions of samples."""
    height, width = feature.shape[1:]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y = np.clip(np.where(inside, y, 0), 0, height - 1)
    x = np.clip(np.where(inside, x, 0), 0, width - 1)
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    corners = []
    for row in (top, top + 1):
        for column in (left, left + 1):
            share = (1 - np.abs(y - row)) * (1 - np.abs(x - column)) * inside
            at = np.minimum(row, height - 1), np.minimum(column, width - 1)
            corners.append(_read(feature, *at, geometry) * share)
    if geometry.pooling == AVERAGE:
        return np.asarray(sum(corners).mean(axis=(-1, -2)))
    samples = sum(corners) if geometry.pooling == MAXIMUM else np.max(corners, axis=0)
    return np.asarray(samples.max(axis=(-1, -2)))


def _read(feature: np.ndarray, row: np.ndarray, column: np.ndarray, geometry: Geometry) -> np.ndarray:
    """[C, PH, PW, gridY, gridX]: pixels of the map."""
    if not geometry.by_position:
        return np.asarray(feature[:, row, column])
    planes = feature.reshape(-1, geometry.output_height, geometry.output_width, *feature.shape[1:])
    i = np.arange(geometry.output_height)[:, None, None, None]
    j = np.arange(geometry.output_width)[None, :, None, None]
    return np.asarray(planes[:, i, j, row, column])
