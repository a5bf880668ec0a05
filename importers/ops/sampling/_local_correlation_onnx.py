"""Writes the correlation of patches in standard ONNX operators of opset 11."""

from __future__ import annotations

from itertools import product

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion


def expand_local_correlation(expansion: Expansion) -> Value:
    """For each row of displacements and each tap: products with all displaced columns at once, summed over channels."""
    g = Builder(expansion.opset)
    f = expansion.fields
    patch, stride = 2 * f["max_displacement"] + 1, f["stride"]
    step_h, step_w = f["dilation_patch"]
    pads = f["padding"]
    far = [pad + f["max_displacement"] * step for pad, step in zip(pads, f["dilation_patch"], strict=True)]
    room = [
        2 * pad - dilation * (kernel - 1) - 1
        for pad, dilation, kernel in zip(pads, f["dilation"], f["kernel_size"], strict=True)
    ]
    sizes = g.Shape("first")
    n, c, h, w = (sizes[i : i + 1] for i in range(4))
    there = g.Expand(1.0, [1, 1, h, w])
    near_maps = [g.Pad(each, [0, 0, *pads] * 2) for each in ("first", there)]
    far_maps = [g.Pad(each, [0, 0, *far] * 2) for each in ("second", there)]
    steps = [g.Add(size, [room[i]]) / [stride[i]] for i, size in enumerate((h, w))]
    out_h, out_w = (g.Add(step, [1]) for step in steps)
    h_length, w_length = (g.Add(step * [stride[i]], [1]) for i, step in enumerate(steps))
    columns = g.arange(out_w) * [stride[1]] + np.array([[p * step_w] for p in range(patch)])
    shapes = g.vector(n, c, out_h, 1, out_w), g.vector(1, 1, out_h, 1, out_w)
    lengths = g.vector(h_length, w_length)

    def first_at(row: int, column: int) -> list[Value]:
        """A tap of the first map at all places, and whether it is there."""
        end = g.Add([row, column], lengths)
        cuts = (g.Slice(each, [row, column], end, [2, 3], list(stride)) for each in near_maps)
        return [g.Reshape(cut, shape) for cut, shape in zip(cuts, shapes, strict=True)]

    def second_at(row: int, columns: Value) -> list[Value]:
        """The same of the second map, at all displaced columns."""
        end = g.Add([row], h_length)
        rows = (g.Slice(each, [row], end, [2], [stride[0]]) for each in far_maps)
        return [g.Gather(each, columns, axis=3) for each in rows]

    places = [(i * f["dilation"][0], j * f["dilation"][1]) for i, j in product(*map(range, f["kernel_size"]))]
    taps = [(row, g.Add(columns, [column]), *first_at(row, column)) for row, column in places]
    sum_shape = g.vector(n, out_h, patch, out_w)
    part_shape = g.vector(n, 1, out_h, patch, out_w)
    parts = []
    for p in range(patch):
        total = g.Expand(0.0, sum_shape)
        for row, displaced, first, first_there in taps:
            second, second_there = second_at(row + p * step_h, displaced)
            products = g.Where(second_there * first_there > 0.0, second * first, 0.0)
            total = total + g.ReduceSum(products, axes=[1], keepdims=0)
        parts.append(g.Reshape(total, part_shape))
    return g.Transpose(g.Concat(*parts, axis=1), perm=[0, 1, 3, 2, 4])
