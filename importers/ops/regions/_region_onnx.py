"""Expands the pooling of regions into standard ONNX operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.importers.builder import Builder, Operand, Value, bounded
from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM_CORNER, MOST_GRID, Geometry

_LARGEST = 3.0e38
_LEAST = -3.0e38


def expand_regions(
    geometry: Geometry, features: Sequence[str], regions: str, opset: int, offsets: str = ""
) -> Value:
    """Writes the pooling, from the named inputs to the output.

    Flat gathers with computed row indices: all levels' pixels become rows [pixels + 1, C], the last of which is zero.
    Each corner of every sample is gathered by row; a corner of a sample that is outside, or that a region with fewer
    samples than another does not have, takes the last row.
    """
    g = Builder(opset)
    return _Expansion(g, geometry, features, *g.inputs(regions)).output(offsets)


class _Expansion:
    """table: rows of all levels. highs, wides, bases: the levels' sizes and first rows. spare: the row of zeros.

    Of each region [K, 1]: image, numbers (its coordinates), level, and usable: False where it is read nowhere.
    """

    def __init__(self, g: Builder, geometry: Geometry, features: Sequence[str], regions: Value) -> None:
        self.g, self.geometry = g, geometry
        self.bins = [geometry.bins if geometry.by_position else 1]
        sizes = [g.Shape(name) for name in features]
        batch, planes, self.highs, self.wides = zip(
            *([size[i : i + 1] for i in range(4)] for size in sizes), strict=True
        )
        self._table(features, batch, planes)
        self.count = g.Shape(regions)[:1]
        self.column_shape = g.vector(self.count, 1)
        self.cube = g.vector(self.count, 1, 1, 1, 1)
        self._columns(regions, batch[0])
        self._levels()

    def _table(self, features: Sequence[str], batch: Sequence[Value], planes: Sequence[Value]) -> None:
        g, tables, counts = self.g, [], []
        channels = [count / self.bins for count in planes]
        for i, name in enumerate(features):
            area = self.highs[i] * self.wides[i]
            counts.append(batch[i] * self.bins * area)
            split = g.Reshape(name, [batch[i], channels[i], *self.bins, area])
            tables.append(g.Reshape(g.Transpose(split, perm=[0, 2, 3, 1]), [counts[i], channels[i]]))
        self.table = g.Concat(*tables, g.Expand(0.0, [1, channels[0]]), axis=0)
        rows = g.Concat(*counts, axis=0)
        self.bases = g.CumSum(rows, 0, exclusive=1)
        self.spare = g.Reshape(g.ReduceSum(rows, keepdims=0), [1])

    def _columns(self, regions: Value, batch: Value) -> None:
        g = self.g
        image, *given = (g.Slice(regions, [i], [i + 1], [1]) for i in range(self.geometry.numbers))
        usable = (image > -1.0) & (image < g.Cast(batch, to="float32"))
        for number in given:
            usable = usable & (g.Abs(number) < _LARGEST)
        self.image = g.Cast(g.Where(usable, image, 0.0), to="int64")
        self.numbers = [g.Where(usable, number, 0.0) for number in given]
        self.usable = usable

    def _levels(self) -> None:
        """Each region's level by its size, and that level's numbers."""
        g, numbers = self.g, self.numbers
        rotated = self.geometry.angle_scale is not None
        self.extents = numbers[2:4] if rotated else [numbers[2] - numbers[0], numbers[3] - numbers[1]]
        side = g.Sqrt(g.Max(self.extents[0] * self.extents[1], 0.0))
        ratio = side / float(self.geometry.finest_scale) + 1e-6
        level = self.image * [0]
        for i in range(1, len(self.geometry.scales)):
            level = level + g.Cast(~(ratio < 2.0**i), to="int64")
        self.map_height = g.Gather(g.Concat(*self.highs, axis=0), level, axis=0)
        self.map_width = g.Gather(g.Concat(*self.wides, axis=0), level, axis=0)
        self.map_base = g.Gather(self.bases, level, axis=0)
        self.scale = g.Gather(list(self.geometry.scales), level, axis=0)

    def output(self, offsets: str) -> Value:
        g, geometry = self.g, self.geometry
        width, x_start = self._side(0)
        height, y_start = self._side(1)
        bin_width, grid_width, usable_width = self._grid(width, geometry.output_width)
        bin_height, grid_height, usable_height = self._grid(height, geometry.output_height)
        self.usable = self.usable & (usable_width & usable_height)
        grid_width, most_width = self._most(grid_width)
        grid_height, most_height = self._most(grid_height)

        cube_shape = g.vector(self.count, 1, 1)

        def along(bins: int, size: Value, grid: Value, most: Operand) -> tuple[Value, Value, Value]:
            """Samples along a side: their positions from its start, whether they exist, and the most of any region."""
            numbers = g.Range(0.0, most, 1.0)
            count = g.Shape(numbers)
            row, grid = g.Reshape(numbers, [1, 1, count]), g.Reshape(grid, cube_shape)
            bin_numbers = np.arange(bounded(bins), dtype=np.float32).reshape(1, bins, 1)
            part = bin_numbers + (row + 0.5) / g.Max(grid, 1.0)
            return part * g.Reshape(size, cube_shape), g.Cast(row < grid, to="float32"), count

        x, x_exists, columns = along(geometry.output_width, bin_width, grid_width, most_width)
        y, y_exists, rows = along(geometry.output_height, bin_height, grid_height, most_height)
        full_shape = g.vector(self.count, geometry.output_height, geometry.output_width, rows, columns)
        y = g.Reshape(y, [self.count, geometry.output_height, 1, rows, 1])
        x = g.Reshape(x, [self.count, 1, geometry.output_width, 1, columns])
        y_exists = g.Reshape(y_exists, [self.count, 1, 1, rows, 1])
        x_exists = g.Reshape(x_exists, [self.count, 1, 1, 1, columns])
        exists = g.Expand(y_exists * x_exists, full_shape) > 0.5
        sizes = [g.Reshape(width, self.cube), g.Reshape(height, self.cube)]
        if offsets:  # shares of the region's size
            offset_shape = g.vector(self.count, geometry.output_height, geometry.output_width, 1, 1)
            x, y = (
                place
                + g.Reshape(g.Slice(offsets, [axis], [axis + 1], [1]), offset_shape)
                * geometry.offset_scale
                * sizes[axis]
                for axis, place in enumerate((x, y))
            )
        if geometry.angle_scale is not None:
            x, y = x - sizes[0] * 0.5, y - sizes[1] * 0.5
            angle = self.numbers[4] * geometry.angle_scale
            cosine, sine = g.Reshape(g.Cos(angle), self.cube), g.Reshape(g.Sin(angle), self.cube)
            x, y = y * sine + x * cosine, y * cosine - x * sine
        x, y = x + g.Reshape(x_start, self.cube), y + g.Reshape(y_start, self.cube)
        corners = self._corners(x, y, exists, full_shape)
        pooled = self._pool(corners, exists, full_shape, grid_width * grid_height)
        return g.Transpose(pooled, perm=[0, 3, 1, 2])

    def _side(self, axis: int) -> tuple[Value, Value]:
        """Size and start of the regions along x or y, in pixels of their level."""
        geometry = self.geometry
        extent, first = self.extents[axis], self.numbers[axis]
        if geometry.growth > 0:
            ends = 1.0 if geometry.growth_counts_ends else 0.0
            grown = (extent + ends) * geometry.growth - ends
            if geometry.angle_scale is None:
                first = first + (extent - grown) * 0.5
            extent = grown
        size = extent * self.scale
        if geometry.least_size is not None:
            size = self.g.Max(size, geometry.least_size)
        return size, first * self.scale - geometry.pixel_offset

    def _grid(self, size: Value, bins: int) -> tuple[Value, Value, Value]:
        """Size of a bin, samples along its side, and whether these are some and not too many."""
        g, ratio = self.g, self.geometry.sampling_ratio
        size = size / float(bins)
        grid = g.Expand(float(ratio), self.column_shape) if ratio > 0 else g.Ceil(size)
        return size, grid, g.Less(0.0, grid) & ~g.Less(float(MOST_GRID), grid)

    def _most(self, grid: Value) -> tuple[Value, Operand]:
        """Samples along the side of a bin, none in a region that is read nowhere; and the most of any region."""
        g, ratio = self.g, self.geometry.sampling_ratio
        grid = g.Where(self.usable, grid, 0.0)
        if ratio > 0:
            return grid, float(ratio)
        return grid, g.ReduceMax(g.Concat(grid, np.ones((1, 1), np.float32), axis=0), keepdims=0)

    def _corners(self, x: Value, y: Value, exists: Value, full_shape: Value) -> list[Value]:
        """The four corners of all samples times their weights, [K, PH, PW, GY, GX, C]."""
        g, geometry = self.g, self.geometry
        width, height = g.Reshape(self.map_width, self.cube), g.Reshape(self.map_height, self.cube)

        def neighbours(position: Value, size: Value) -> tuple[Value, list[tuple[Value, Value]]]:
            """Whether positions along an axis are inside, and the pixels before and after them with their shares."""
            end = g.Cast(size, to="float32")
            last = end - 1.0
            finite = g.Abs(position) < _LARGEST
            inside = ~((position < -1.0) | (position > end)) & finite
            clamped = g.Min(g.Max(g.Where(finite, position, 0.0), 0.0), last)
            low = g.Floor(clamped)
            high = g.Min(low + 1.0, last)
            share = clamped - low
            return inside, [(g.Cast(low, to="int64"), 1.0 - share), (g.Cast(high, to="int64"), share)]

        in_columns, columns = neighbours(x, width)
        in_rows, rows = neighbours(y, height)
        plane = g.Reshape(self.image * self.bins, self.cube)
        if geometry.by_position:
            shape = 1, geometry.output_height, geometry.output_width, 1, 1
            plane = plane + np.arange(bounded(geometry.bins)).reshape(shape)
        area = width * height
        start = g.Reshape(self.map_base, self.cube) + plane * area
        inside = in_columns & in_rows & (area > [0]) & g.Reshape(self.usable, self.cube) & exists
        self.share_shape = g.Concat(full_shape, [1], axis=0)
        corners = []
        for row, row_share in rows:
            for column, column_share in columns:
                index = g.Where(inside, row * width + column + start, self.spare)
                weight = g.Where(inside, g.Expand(row_share * column_share, full_shape), 0.0)
                values = g.Gather(self.table, index, axis=0)
                corners.append(values * g.Reshape(weight, self.share_shape))
        return corners

    def _pool(self, corners: list[Value], exists: Value, full_shape: Value, samples: Value) -> Value:
        """The bins out of their samples, [K, PH, PW, C]."""
        g, pooling = self.g, self.geometry.pooling
        if pooling == MAXIMUM_CORNER:
            sample = g.Max(*corners)
        else:
            first, second, third, fourth = corners
            sample = (first + second) + (third + fourth)
        pixel_shape = g.vector(self.count, 1, 1, 1)
        if pooling == AVERAGE:
            total = g.ReduceSum(sample, axes=[3, 4], keepdims=0)
            return total / g.Reshape(g.Max(samples, 1.0), pixel_shape)
        there = g.Where(g.Reshape(exists, self.share_shape), sample, _LEAST)
        largest = g.ReduceMax(there, axes=[3, 4], keepdims=0)
        return g.Where(g.Reshape(self.usable, pixel_shape), largest, 0.0)
