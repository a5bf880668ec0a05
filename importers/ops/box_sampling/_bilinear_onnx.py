"""Samples maps bilinearly in standard ONNX operators: up to a pixel outside a map has its edge, and is zero farther away."""

from __future__ import annotations

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
        """[..., C] at positions [...] in double. first: the first row of the map of each, int64."""
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
