"""Expands the sum of weighted features over intervals of points into standard ONNX operators."""

from __future__ import annotations

import math

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.bev._cells_onnx import last_owners

_NONE = np.zeros(1, np.float32)


def expand_bev_pool(expansion: Expansion) -> Value:
    """The sums of all intervals, as long as the longest, and each cell's from the last interval that it has."""
    g = Builder(expansion.opset)
    sizes = [expansion.fields[name] for name in ("output_planes", "output_height", "output_width")]
    first, point = _points(g)

    def rank(name: str, index: Value) -> Value:
        """-1 for a point behind the last."""
        return g.Gather(g.Concat(g.Cast(name, to="int64"), [-1], axis=0), index, axis=0)

    depth_rank, feat_rank = rank("ranks_depth", point), rank("ranks_feat", point)
    depth = g.Reshape("depth", [-1])
    depths = g.Reshape(g.Shape(depth), [1])
    feat_shape = g.Shape("feat")
    channels = feat_shape[3:4]
    rows = g.ReduceProd(feat_shape[:3], keepdims=1)
    no_features = g.Expand(_NONE, [1, channels])
    feat = g.Concat(g.Reshape("feat", [rows, channels]), no_features, axis=0)
    both_exist = ~((depth_rank < [0]) | (feat_rank < [0])) & ((depth_rank < depths) & (feat_rank < rows))
    weight = g.Gather(g.Concat(depth, _NONE, axis=0), g.Where(both_exist, depth_rank, depths), axis=0)
    features = g.Gather(feat, g.Where(both_exist, feat_rank, rows), axis=0)
    weighted = features * g.Reshape(weight, g.Concat(g.Shape(weight), [1], axis=0))
    sums = g.Concat(no_features, g.ReduceSum(weighted, axes=[1], keepdims=0), axis=0)

    cells = [math.prod(sizes)]
    cell = rank("ranks_bev", first)
    cell = g.Where(~(cell < [0]) & (cell < cells), cell, cells)
    return g.Reshape(g.Gather(sums, last_owners(g, cell, cells), axis=0), g.Concat(sizes, channels, axis=0))


def _points(g: Builder) -> tuple[Value, Value]:
    """Each interval's first point [I], and its points [I, most]; one behind the last where it has fewer."""
    starts, lengths = g.Cast("interval_starts", to="int64"), g.Cast("interval_lengths", to="int64")
    points = g.Reshape(g.Shape("ranks_bev"), [1])
    usable = ~(starts < [0]) & (starts < points) & (lengths > [0])
    left = points - starts
    count = g.Where(usable, g.Where(left < lengths, left, lengths), [0])
    offsets = g.Range(0, g.ReduceMax(g.Concat(count, [1], axis=0), keepdims=0), 1)
    column = g.vector(g.Shape(starts), 1)
    first = g.Where(usable, starts, points)
    return first, g.Where(offsets < g.Reshape(count, column), g.Reshape(first, column) + offsets, points)
