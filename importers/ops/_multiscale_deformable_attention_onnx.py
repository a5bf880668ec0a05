"""Expands multi-scale deformable attention into standard ONNX operators, from either form of its samples."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> Value:
    """The operator whose locations and weights are inputs."""
    g = Builder(expansion.opset)
    sampling = _Sampling(g, *g.inputs("attention_weights"))
    locations = g.Transpose("sampling_locations", perm=[0, 2, 1, 3, 4, 5])
    xy = g.Reshape(locations, [sampling.heads, sampling.queries, sampling.levels, sampling.points, 2])
    x, y = (
        g.Reshape(g.Slice(xy, [axis], [axis + 1], [4]), sampling.shape) * sampling.sizes[axis] - 0.5
        for axis in (0, 1)
    )
    return sampling.sum(x, y)


def expand_from_offsets(expansion: Expansion) -> Value:
    """The operator that has reference points, offsets and logits."""
    g = Builder(expansion.opset)
    batch, given = g.Shape("value")[:1], g.Shape("attention_logits")[:1]
    quotient = batch / g.Where(g.Equal(given, [0]), [1], given)
    entries = g.arange(batch) / g.Where(g.Equal(quotient, [0]), [1], quotient)  # images share queries
    logits = g.Gather("attention_logits", entries, axis=0)
    shape = g.Shape(logits)
    flat = g.Reshape(logits, [shape[:3], shape[3:4] * shape[4:5]])
    sampling = _Sampling(g, g.Reshape(g.Softmax(flat, axis=-1), shape))
    levels, points = sampling.levels, sampling.points

    shape = g.Shape("reference_points")
    groups, numbers = shape[3:4], shape[4:5]
    references = g.Reshape(
        "reference_points", [shape[:1], 1, sampling.queries, shape[2:3], 1, groups, numbers]
    )
    offsets_by_head = g.Transpose(g.Gather("sampling_offsets", entries, axis=0), perm=[0, 2, 1, 3, 4, 5])
    turns = points / groups
    offsets_shape = g.vector(sampling.n, sampling.m, sampling.queries, levels, turns, groups, 2)
    offsets = g.Reshape(offsets_by_head, offsets_shape)
    sizes_shape = g.vector(1, 1, 1, levels, 1, 1, 1)
    is_box = g.Equal(numbers, [4])
    twice = g.Concat(references, references, axis=6)
    share_of_extent = 0.5 / g.Cast(points, to="float32")

    def positions(axis: int) -> Value:
        """In pixels along x or y: a reference, and offsets in pixels or in shares of a box."""
        size = g.Reshape(sampling.sizes[axis], sizes_shape)
        extent = g.Slice(twice, [axis + 2], [axis + 3], [6]) * size * share_of_extent
        away = g.Slice(offsets, [axis], [axis + 1], [6]) * g.Where(is_box, extent, 1.0)
        origin = g.Slice(references, [axis], [axis + 1], [6]) * size - 0.5
        return g.Reshape(origin + away, sampling.shape)

    return sampling.sum(positions(0), positions(1))


class _Sampling:
    """Flat gathers with computed row indices: one graph for any number of levels, in any order of storage.

    Values become rows [N*M*S + 1, D], the last of which is zero. Each of the four corners of every sample is gathered
    by row; a corner outside its level, or of a location that is NaN, has weight zero and takes the last row.
    Samples are weighted and summed by Mul and ReduceSum, not by MatMul: products of one row each are slow in TensorRT,
    and TensorRT-RTX 1.6.1 fails to run them at 22,223 queries of a dynamic batch.

    sizes: widths and heights of the levels. shape: [N*M, Q, L, P], of positions.
    """

    def __init__(self, g: Builder, attention_weights: Value) -> None:
        self._g = g
        value_shape, weights_shape = g.Shape("value"), g.Shape(attention_weights)
        self.n, self._rows_of_head, self.m, self._depth = (value_shape[i : i + 1] for i in range(4))
        self.queries, self.levels, self.points = (weights_shape[i : i + 1] for i in (1, 3, 4))
        self.heads = self.n * self.m
        self.shape = g.vector(self.heads, self.queries, self.levels, self.points)
        self._level_shape = g.vector(1, 1, self.levels, 1)
        spatial = g.Cast("spatial_shapes", to="int64")
        self._widths, heights = (
            g.Reshape(g.Slice(spatial, [axis], [axis + 1], [1]), self._level_shape) for axis in (1, 0)
        )
        self.sizes = [g.Cast(size, to="float32") for size in (self._widths, heights)]
        self._weights = g.Reshape(g.Transpose(attention_weights, perm=[0, 2, 1, 3, 4]), self.shape)

    def sum(self, x: Value, y: Value) -> Value:
        """The operator's output, from positions in pixels."""
        g, count, depth = self._g, self._rows_of_head, self._depth
        samples = self.levels * self.points
        all_rows = self.heads * count
        value_rows = g.Reshape(g.Transpose("value", perm=[0, 2, 1, 3]), [all_rows, depth])
        rows = g.Concat(value_rows, g.Expand(0.0, [1, depth]), axis=0)
        first_row = g.Reshape(g.arange(self.heads) * count, [self.heads, 1, 1, 1])
        starts = g.Reshape(g.Cast("level_start_index", to="int64"), self._level_shape)
        right_limit, bottom_limit = (size - 0.5 for size in self.sizes)
        share_shape = g.vector(self.heads, self.queries, samples, 1)
        index_shape = g.vector(self.heads, self.queries, samples)

        def corner(column: Value, share_x: Value, row: Value, share_y: Value) -> Value:
            in_columns = (column > -0.5) & (column < right_limit)
            in_level = in_columns & ((row > -0.5) & (row < bottom_limit))
            row_start = g.Cast(g.Where(in_level, row, 0.0), to="int64") * self._widths
            key = row_start + g.Cast(g.Where(in_level, column, 0.0), to="int64") + starts
            inside = in_level & ((key > [-1]) & (key < count))
            share = g.Where(inside, share_x * share_y * self._weights, 0.0)
            index = g.Reshape(g.Where(inside, key + first_row, all_rows), index_shape)
            sampled = g.Gather(rows, index, axis=0) * g.Reshape(share, share_shape)
            return g.ReduceSum(sampled, axes=[2], keepdims=0)

        left, top = g.Floor(x), g.Floor(y)
        share_right, share_bottom = x - left, y - top
        before, after = (left, 1.0 - share_right), (left + 1.0, share_right)
        above, below = (top, 1.0 - share_bottom), (top + 1.0, share_bottom)
        upper = corner(*before, *above) + corner(*after, *above)
        total = upper + (corner(*before, *below) + corner(*after, *below))
        heads_first = g.Reshape(total, [self.n, self.m, self.queries, depth])
        return g.Reshape(g.Transpose(heads_first, perm=[0, 2, 1, 3]), [self.n, self.queries, self.m * depth])
