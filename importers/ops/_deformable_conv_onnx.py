"""Expands deformable convolution into standard ONNX: columns by flat gathers, then a MatMul for each group."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> Value:
    """One graph for any batch, height and width; fields are inlined.

    The input becomes rows [N*OG*H*W + 1, C/OG], the last of which is zero. Each of the four corners of every sample is
    gathered by row; a corner outside the input, or of a position that is NaN, has weight zero and takes the last row.
    """
    g = Builder(expansion.opset)
    fields = expansion.fields
    groups, offset_groups = [fields["groups"]], [fields["offset_groups"]]
    x_shape, weight_shape, offset_shape = g.Shape("x"), g.Shape("weight"), g.Shape("offset")
    n, c, h, w = (x_shape[i : i + 1] for i in range(4))
    out_channels, kernel_width, kernel_shape = weight_shape[:1], weight_shape[3:4], weight_shape[2:4]
    out_h, out_w, out_size = offset_shape[2:3], offset_shape[3:4], offset_shape[2:4]
    taps = g.ReduceProd(kernel_shape, keepdims=1)
    cells, area = h * w, out_h * out_w
    images = n * offset_groups
    all_cells = images * cells
    group_channels = c / offset_groups

    grouped = g.Reshape("x", [images, group_channels, cells])
    value_rows = g.Reshape(g.Transpose(grouped, perm=[0, 2, 1]), [all_cells, group_channels])
    rows = g.Concat(value_rows, g.Expand(0.0, [1, group_channels]), axis=0)
    first_row = g.Reshape(g.arange(images) * cells, [images, 1, 1, 1])

    tap = g.arange(taps)
    tap_row = tap / kernel_width
    tap_shape = g.vector(taps, 1, 1)
    plane_shape = g.vector(images, taps, out_h, out_w)
    moves = g.Reshape("offset", [images, taps, 2, out_h, out_w])

    def positions(axis: int, tap: Value, count: Value, shape: list[Value | int]) -> Value:
        """Along one axis, y or x: of each tap at each output pixel."""
        tap_column = g.Reshape(tap * [fields["dilation"][axis]], tap_shape)
        out = g.arange(count) * [fields["stride"][axis]] - [fields["padding"][axis]]
        move = g.Reshape(g.Slice(moves, [axis], [axis + 1], [2]), plane_shape)
        return move + g.Cast(tap_column + g.Reshape(out, shape), to="float32")

    y = positions(0, tap_row, out_h, [1, out_h, 1])
    x = positions(1, tap - tap_row * kernel_width, out_w, [1, 1, out_w])
    up, left = g.Floor(y), g.Floor(x)
    share_down, share_right = y - up, x - left
    bottom_limit, right_limit = g.Cast(h, to="float32") - 0.5, g.Cast(w, to="float32") - 0.5
    share_shape = g.vector(images, taps, out_h, out_w, 1)

    def corner(row: Value, share_row: Value, column: Value, share_column: Value) -> Value:
        in_rows = (row > -0.5) & (row < bottom_limit)
        in_columns = (column > -0.5) & (column < right_limit)
        inside = in_rows & in_columns
        row_start = g.Cast(g.Where(inside, row, 0.0), to="int64") * w
        cell = row_start + g.Cast(g.Where(inside, column, 0.0), to="int64")
        values = g.Gather(rows, g.Where(inside, cell + first_row, all_cells), axis=0)
        return values * g.Reshape(g.Where(inside, share_row * share_column, 0.0), share_shape)

    above, below = (up, 1.0 - share_down), (up + 1.0, share_down)
    before, after = (left, 1.0 - share_right), (left + 1.0, share_right)
    upper = corner(*above, *before) + corner(*above, *after)
    sampled = upper + (corner(*below, *before) + corner(*below, *after))
    if "mask" in expansion.present:
        sampled = sampled * g.Reshape("mask", share_shape)

    samples = g.Reshape(sampled, [n, offset_groups[0], taps, area, group_channels])
    depth = c / groups * taps
    columns = g.Reshape(g.Transpose(samples, perm=[1, 4, 2, 0, 3]), [*groups, depth, n * area])
    kernel_rows = g.Reshape("weight", [*groups, out_channels / groups, depth])
    planes = g.Reshape(g.MatMul(kernel_rows, columns), [out_channels, n, area])
    output = g.Reshape(g.Transpose(planes, perm=[1, 0, 2]), [n, out_channels, out_size])
    if "bias" in expansion.present:
        return output + g.Reshape("bias", [out_channels, 1, 1])
    return output
