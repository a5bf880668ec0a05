"""Expands grouped deformable sampling into standard ONNX operators."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.sampling._grouped_deformable_sampling_geometry import reach, taps


def expand(expansion: Expansion) -> Value:
    """One graph for any batch, height and width; fields are inlined.

    The input becomes rows [N*H*W*G + 1, C/G], the last of which is zero. Each of the four corners of every sample is
    gathered by row; a corner outside the input, or of a position that is NaN, has weight zero and takes the last row.
    """
    g = Builder(expansion.opset)
    fields = expansion.fields
    groups, places, scale = fields["groups"], taps(fields), float(fields["offset_scale"])
    count = len(places)
    x_shape, offset_shape = g.Shape("x"), g.Shape("offset")
    n, h, w, c = (x_shape[i : i + 1] for i in range(4))
    out_h, out_w = offset_shape[1:2], offset_shape[2:3]
    points, cells = out_h * out_w, h * w
    all_rows = n * cells * [groups]
    depth = c / [groups]
    rows = g.Concat(g.Reshape("x", [all_rows, depth]), g.Expand(0.0, [1, depth]), axis=0)
    sample_shape = g.vector(n, points, groups, count)
    pairs_shape = g.vector(n, points, groups, count, 2)
    if "mask" in expansion.present:
        pairs, weights = g.Reshape("offset", pairs_shape), g.Reshape("mask", sample_shape)
    else:  # offsets and weights of a group side by side
        given = g.Slice("offset", [0], [3 * groups * count], [3])
        grouped = g.Reshape(given, [n, points, groups, 3 * count])
        pairs = g.Reshape(g.Slice(grouped, [0], [2 * count], [3]), pairs_shape)
        weights = g.Slice(grouped, [2 * count], [3 * count], [3])
    plane_shape = g.vector(out_h, out_w)
    origin_shape = g.vector(1, points, 1, 1)

    def positions(axis: int, place: int, size: Value, shape: Value) -> Value:
        """Along y or x, axes 0 and 1, whose offsets are at `place` of a pair."""
        middle = reach(fields, axis) // 2
        steps = [scale * (tap[axis] * fields["dilation"][axis] - middle) for tap in places]
        origin = g.arange(size) * fields["stride"][axis] + (middle - fields["padding"][axis])
        origin = g.Cast(g.Expand(g.Reshape(origin, shape), plane_shape), to="float32")
        move = g.Reshape(g.Slice(pairs, [place], [place + 1], [4]), sample_shape) * scale
        return move + np.array(steps, np.float32) + g.Reshape(origin, origin_shape)

    y = positions(0, 1, out_h, g.vector(out_h, 1))
    x = positions(1, 0, out_w, g.vector(1, out_w))
    up, left = g.Floor(y), g.Floor(x)
    share_down, share_right = y - up, x - left
    bottom_limit, right_limit = g.Cast(h, to="float32") - 0.5, g.Cast(w, to="float32") - 0.5
    first_cell = g.Reshape(g.arange(n) * cells, [n, 1, 1, 1])
    group_row = g.Reshape(g.arange([groups]), [1, 1, groups, 1])
    share_shape = g.vector(n, points, groups, count, 1)

    def corner(row: Value, share_row: Value, column: Value, share_column: Value) -> Value:
        in_rows = (row > -0.5) & (row < bottom_limit)
        inside = in_rows & ((column > -0.5) & (column < right_limit))
        row_start = g.Cast(g.Where(inside, row, 0.0), to="int64") * w
        cell = row_start + g.Cast(g.Where(inside, column, 0.0), to="int64")
        index = g.Where(inside, (cell + first_cell) * [groups] + group_row, all_rows)
        share = g.Where(inside, share_row * share_column * weights, 0.0)
        samples = g.Gather(rows, index, axis=0) * g.Reshape(share, share_shape)
        return g.ReduceSum(samples, axes=[3], keepdims=0)

    above, below = (up, 1.0 - share_down), (up + 1.0, share_down)
    before, after = (left, 1.0 - share_right), (left + 1.0, share_right)
    upper = corner(*above, *before) + corner(*above, *after)
    total = upper + (corner(*below, *before) + corner(*below, *after))
    return g.Reshape(total, [n, out_h, out_w, c])
