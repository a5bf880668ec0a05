"""Samples maps bilinearly in numpy and in PyTorch. Up to one pixel outside, a map continues its edge; beyond, it is zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value

NONE, ONE = np.float64(0), np.float64(1)


class PixelTable:
    """The maps `x` [N, groups * C, H, W] as rows of C channels, [N * groups * H * W + 1, C], the last one zero.

    sizes: of x. batch, channels, area: int64[1]. pixels: [N * groups, H * W, C].
    """

    def __init__(self, g: Builder, groups: int) -> None:
        self._g = g
        self.sizes = g.Shape("x")
        self.batch, planes, self._high, self._wide = (self.sizes[i : i + 1] for i in range(4))
        self.channels = planes / [groups]
        self.area = self._high * self._wide
        images = self.batch * [groups]
        self._spare = images * self.area
        apart = g.Reshape("x", [images, self.channels, self.area])
        self.pixels = g.Transpose(apart, perm=[0, 2, 1])
        rows = g.Reshape(self.pixels, [self._spare, self.channels])
        self._rows = g.Concat(rows, g.Expand(0.0, [1, self.channels]), axis=0)
        self._ends = [g.Cast(size, to="float64") for size in (self._high, self._wide)]
        self._lasts = [end - ONE for end in self._ends]

    def sample(self, y: Value, x: Value, first: Value) -> Value:
        """Samples [..., C] at positions [...] in double. first: the first row of each sample's map, int64."""
        g = self._g
        in_rows, rows = self._neighbours(y, self._ends[0], self._lasts[0])
        in_columns, columns = self._neighbours(x, self._ends[1], self._lasts[1])
        inside = in_rows & in_columns & (self.area > [0])
        share_shape = g.Concat(g.Shape(inside), [1], axis=0)
        corners = []
        for row, row_share in rows:
            for column, column_share in columns:
                index = g.Where(inside, row * self._wide + column + first, self._spare)
                share = g.Cast(row_share * column_share, to="float32")
                corners.append(g.Gather(self._rows, index, axis=0) * g.Reshape(share, share_shape))
        return g.Sum(*corners)

    def _neighbours(
        self, position: Value, end: Value, last: Value
    ) -> tuple[Value, list[tuple[Value, Value]]]:
        """Whether positions along an axis are inside, and the pixels before and after them with their shares."""
        g = self._g
        inside = ~((position < -ONE) | (end < position)) & g.Equal(position, position)
        place = g.Min(g.Max(g.Where(inside, position, NONE), NONE), last)
        low = g.Floor(place)
        high = g.Min(low + ONE, last)
        share = place - low
        return inside, [(g.Cast(low, to="int64"), ONE - share), (g.Cast(high, to="int64"), share)]


def sample_numpy(feature: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Samples [C, ...] of a map [C, H, W] at positions [...]; NaN gives zero. A pixel's weight falls to zero one
    pixel away.
    """
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
    """Samples [N, C, S] of maps [N, C, H, W] at positions [N, S]."""
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
