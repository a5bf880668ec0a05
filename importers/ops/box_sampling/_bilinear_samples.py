"""Samples maps bilinearly in numpy and in PyTorch: up to a pixel outside a map has its edge, and is zero farther away."""

from __future__ import annotations

from typing import Any

import numpy as np


def sample_numpy(feature: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """[C, ...] of a map [C, H, W] at positions [...]; zero at what is no number. A pixel's share is a tent around it."""
    channels, height, width = feature.shape
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    output = np.zeros((channels, *y.shape))
    if height * width == 0:
        return output
    down = np.clip(np.where(inside, y, 0), 0, height - 1)
    across = np.clip(np.where(inside, x, 0), 0, width - 1)
    for i, j in np.ndindex(2, 2):
        row, column = np.floor(down).astype(np.int64) + i, np.floor(across).astype(np.int64) + j
        share = (1 - abs(down - row)) * (1 - abs(across - column)) * inside
        output += share * feature[:, np.minimum(row, height - 1), np.minimum(column, width - 1)]
    return output


def sample_torch(feature: Any, y: Any, x: Any) -> Any:
    """[N, C, S] of maps [N, C, H, W] at positions [N, S]."""
    import torch

    batch, channels, height, width = feature.shape
    if height * width == 0:
        return feature.new_zeros(batch, channels, y.shape[1])
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y = torch.where(inside, y, 0).clamp(0, height - 1)
    x = torch.where(inside, x, 0).clamp(0, width - 1)
    top, left = y.floor(), x.floor()
    down, right = y - top, x - left
    flat = feature.flatten(2)
    output = 0
    for row, by_row in ((top, 1 - down), ((top + 1).clamp(max=height - 1), down)):
        for column, by_column in ((left, 1 - right), ((left + 1).clamp(max=width - 1), right)):
            at = (row * width + column).long() if y.dtype.itemsize > 2 else row.long() * width + column.long()
            values = flat.gather(2, at[:, None].expand(batch, channels, -1))
            output = output + values * (by_row * by_column * inside)[:, None]
    return output
