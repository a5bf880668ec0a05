"""Expands precise RoI pooling into standard ONNX operators."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion

_NONE, _ONE, _HALF = np.float64(0), np.float64(1), np.float64(0.5)


def expand_precise_regions(expansion: Expansion) -> Value:
    """A loop over regions: two products of matrices for each. Weights in double, as differences of integrals.

    One image more serves regions that have none, and one channel more maps that have none.
    """
    g = Builder(expansion.opset)
    fields = expansion.fields
    height, width = fields["output_height"], fields["output_width"]
    scale = np.float64(np.float32(fields["spatial_scale"]))
    sizes = g.Shape("x")
    batch, channels, plane = sizes[:1], sizes[1:2], sizes[2:4]
    high, wide = g.Squeeze(sizes[2:3]), g.Squeeze(sizes[3:4])
    images = g.Cast(batch, to="float64")
    channels_some = g.Add(channels, [1])
    x_some = g.Concat("x", g.Expand(0.0, [batch, 1, plane]), axis=1)
    maps = g.Concat(x_some, g.Expand(0.0, [1, channels_some, plane]), axis=0)
    regions = g.Shape("rois")[:1]
    rois = g.Cast("rois", to="float64")

    def integral(t: Value) -> Value:
        """Of max(0, 1 - |t|), less a half."""
        inside = g.Min(g.Max(t, -_ONE), _ONE)
        return g.Sub(inside, inside * g.Abs(inside) * _HALF)

    def pixel_weights(box: Value, low: int, high: int, bins: int, pixels: Value) -> tuple[Value, Value]:
        """Along an axis: size of the box, and each pixel's share in each bin."""
        start = g.Gather(box, low, axis=0) * scale
        size = g.Gather(box, high, axis=0) * scale - start
        step = size / np.array([bins], np.float64)
        starts = g.Cast(g.Range(0, bins, 1), to="float64") * step + start
        begin = g.Reshape(starts, [bins, 1]) - g.Cast(g.Range(0, pixels, 1), to="float64")
        covered = integral(begin + step) - integral(begin)
        return size, g.Cast(covered / step, to="float32")

    def pool(k: Value, go: Value) -> tuple[Value, Value]:
        roi = g.Gather(rois, k, axis=0)
        image, given = roi[:1], roi[1:5]
        finite = g.Equal(given, given) & ~g.Less(np.float64(3.4028235e38), g.Abs(given))
        box = g.Where(finite, given, _NONE)
        all_finite = g.Cast(g.ReduceMin(g.Cast(finite, to="int64"), keepdims=0), to="bool")
        exists = g.Less(-_ONE, image) & (image < images)
        y_size, y_weights = pixel_weights(box, 1, 3, height, high)
        x_size, x_weights = pixel_weights(box, 0, 2, width, wide)
        usable = g.Less(_NONE, y_size) & g.Less(_NONE, x_size) & exists & all_finite
        number = g.Squeeze(g.Cast(g.Where(usable, image, images), to="int64"))
        by_row = g.MatMul(g.Where(usable, y_weights, 0.0), g.Gather(maps, number, axis=0))
        return go, g.MatMul(by_row, g.Transpose(g.Where(usable, x_weights, 0.0), perm=[1, 0]))

    signature = "(int64 k, bool go) => (bool go_on, float[c, p, q] pooled)"
    by_region = g.Loop(g.Squeeze(regions), True, body=g.graph(signature, pool))
    bins_shape = g.Concat(regions, channels_some, [height, width], axis=0)
    return g.Slice(g.Reshape(by_region, bins_shape), [0], channels, [1])
