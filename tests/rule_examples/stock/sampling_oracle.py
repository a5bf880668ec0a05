"""Samples images point by point in float64, from PyTorch's documentation of grid_sample."""

from __future__ import annotations

import numpy as np


def _cubic(t: float) -> tuple[float, ...]:
    """Weights of the pixels at -1, 0, 1, 2 for a point at t: Keys 1981 with a = -0.75."""
    a = -0.75
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    return far[0], near[0], near[1], far[1]


def _place(at: float, size: int, padding: str, aligned: bool) -> float:
    """A pixel's coordinate after padding."""
    if padding == "border":
        return min(max(at, 0.0), size - 1.0)
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        if high == low:
            return 0.0
        period = 2 * (high - low)
        inside = (at - low) % period
        at = low + min(inside, period - inside)
        return min(max(at, 0.0), size - 1.0)
    return at


def sampled_volumes(
    volumes: np.ndarray, grid: np.ndarray, mode: str, padding: str = "zeros", aligned: bool = False
) -> np.ndarray:
    """volumes [N, C, D, H, W] at grid [N, d, h, w, 3] of (x, y, z) from -1 to 1; bilinear or nearest."""
    n, c, *sizes = volumes.shape
    result = np.zeros((n, c, *grid.shape[1:4]))
    for place in np.ndindex(n, *grid.shape[1:4]):
        at = []
        for g, size in zip(grid[place].astype(np.float64)[::-1], sizes, strict=True):
            raw = (g + 1) / 2 * (size - 1) if aligned else ((g + 1) * size - 1) / 2
            at.append(_place(raw, size, padding, aligned))
        corners = np.ndindex(2, 2, 2) if mode == "bilinear" else [(0, 0, 0)]
        for corner in corners:
            if mode == "bilinear":
                voxel = [int(np.floor(p)) + up for p, up in zip(at, corner, strict=True)]
                weight = float(np.prod([1 - abs(p - v) for p, v in zip(at, voxel, strict=True)]))
            else:
                voxel, weight = [round(p) for p in at], 1.0
            if all(0 <= v < size for v, size in zip(voxel, sizes, strict=True)):
                result[(place[0], slice(None), *place[1:])] += (
                    weight * volumes[(place[0], slice(None), *voxel)]
                )
    return result


def sampled(
    images: np.ndarray, grid: np.ndarray, mode: str, padding: str = "zeros", aligned: bool = False
) -> np.ndarray:
    """images [N, C, H, W] at grid [N, h, w, 2] of (x, y) from -1 to 1."""
    n, c, height, width = images.shape
    result = np.zeros((n, c, *grid.shape[1:3]))

    def pixel(b: int, y: float, x: float) -> np.ndarray:
        row, column = round(y), round(x)
        if mode == "bicubic":
            row = round(_place(row, height, padding, aligned))
            column = round(_place(column, width, padding, aligned))
        inside = 0 <= row < height and 0 <= column < width
        return images[b, :, row, column].astype(np.float64) if inside else np.zeros(c)

    for b, i, j in np.ndindex(n, *grid.shape[1:3]):
        at = [
            (g + 1) / 2 * (size - 1) if aligned else ((g + 1) * size - 1) / 2
            for g, size in zip(grid[b, i, j].astype(np.float64), (width, height), strict=True)
        ]
        if mode != "bicubic":
            at = [_place(p, size, padding, aligned) for p, size in zip(at, (width, height), strict=True)]
        x, y = at
        left, top = int(np.floor(x)), int(np.floor(y))
        if mode == "nearest":
            result[b, :, i, j] = pixel(b, y, x)
            continue
        first = -1 if mode == "bicubic" else 0
        weights = [_cubic(p - np.floor(p)) if mode == "bicubic" else (1 - p % 1, p % 1) for p in (x, y)]
        for k, row_weight in enumerate(weights[1], first):
            for m, weight in enumerate(weights[0], first):
                result[b, :, i, j] += row_weight * weight * pixel(b, top + k, left + m)
    return result
