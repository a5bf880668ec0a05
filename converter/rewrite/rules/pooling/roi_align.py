"""Rewrites RoiAlign, whose plugin TensorRT-RTX lacks: four gathers for each sample's corners, then a mean or a maximum.

Formula: ONNX's reference implementation. In mode "max" that takes the largest of the weighted corners, not the largest
interpolated sample.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype is None:
        return Refusal(
            f"the element type of {node.input(0)!r} is unknown",
            "an input of known type",
            "run onnx.shape_inference on the model",
        )
    samples = int(node.attributes.get("sampling_ratio", 0))
    if samples <= 0:
        return None  # samples by the size of each box: TensorRT takes that, TensorRT-RTX has no plugin for it
    height, width = int(node.attributes["output_height"]), int(node.attributes["output_width"])
    scale = float(node.attributes["spatial_scale"])
    half = node.attributes.get("coordinate_transformation_mode", "output_half_pixel") == "half_pixel"
    w = Writer(node)
    x = w.x[0] if dtype == "float32" else w.Cast(w.x[0], to="float32")
    boxes = w.x[1] if node.dtype(1) == "float32" else w.Cast(w.x[1], to="float32")
    boxes = w.Mul(boxes, float(scale))
    if half:
        boxes = w.Sub(boxes, 0.5)
    index = w.Cast(w.x[2], to="int64") if node.dtype(2) != "int64" else w.x[2]
    average = node.attributes.get("mode", "avg") == "avg"
    result = aligned(w, x, boxes, index, (height, width), samples, half=half, average=average)
    result = result if dtype == "float32" else w.Cast(result, to=dtype)
    return Replacement(w.finish(result), "RoiAlign by gathers of the samples' corners")


def aligned(
    w: Writer,
    x: Value,
    boxes: Value,
    index: Value,
    bins: tuple[int, int],
    samples: int,
    *,
    half: bool,
    average: bool,
) -> Value:
    """float32 [R, C, *bins] of images x and boxes [x1, y1, x2, y2] in pixels, each of the image whose number `index` gives.

    half: whether a box may be smaller than a pixel, as with half_pixel.
    """
    height, width = bins
    ys = _AxisSamples(w, x, boxes, 1, 2, height, samples, half)
    xs = _AxisSamples(w, x, boxes, 0, 3, width, samples, half)
    corners = _corners(w, x, index, ys, xs)
    samples_of_boxes = w.Sum(*corners) if average else w.Max(*corners)
    shape = w.Concat([-1, height, samples, width, samples], w.size(x, 1), axis=0)
    sampled = w.Reshape(samples_of_boxes, shape)
    pooled = w.reduce("ReduceMean" if average else "ReduceMax", sampled, [2, 4], keepdims=False)
    return w.Transpose(pooled, perm=[0, 3, 1, 2])


class _AxisSamples:
    """The samples along one axis of all boxes: indices int64[R, n] and weights float[R, n] of both neighbours."""

    def __init__(
        self, w: Writer, x: Value, boxes: Value, column: int, axis: int, bins: int, samples: int, half: bool
    ) -> None:
        start = w.slice(boxes, [column], [column + 1], [1])  # [R, 1]
        extent = w.Sub(w.slice(boxes, [column + 2], [column + 3], [1]), start)
        if not half:
            extent = w.Max(extent, 1.0)
        size = w.Div(extent, float(bins))
        number = np.repeat(np.arange(bins, dtype=np.float32), samples)
        within = np.tile(np.arange(samples, dtype=np.float32) + np.float32(0.5), bins)
        place = w.Add(start, w.Mul(size, number[None]))
        place = w.Add(place, w.Div(w.Mul(size, within[None]), float(samples)))
        length = w.Cast(w.size(x, axis), to="float32")
        last = w.Sub(length, np.ones(1, np.float32))
        valid = w.And(w.Not(w.Less(place, -1.0)), w.Not(w.Greater(place, length)))
        # Beyond the last row or column, and up to one before the first, the edge is taken as it is.
        place = w.Min(w.Max(place, 0.0), last)
        floor = w.Floor(place)
        high = w.Min(w.Add(floor, 1.0), last)
        part = w.Sub(place, floor)
        mask = w.Cast(valid, to="float32")
        self.indices = [w.Cast(floor, to="int64"), w.Cast(high, to="int64")]
        self.weights = [w.Mul(w.Sub(1.0, part), mask), w.Mul(part, mask)]


def _corners(w: Writer, x: Value, index: Value, ys: _AxisSamples, xs: _AxisSamples) -> list[Value]:
    """The four weighted corners of each sample, [R, samples along y, along x, C] each."""
    height, width = w.size(x, 2), w.size(x, 3)
    channels = w.size(x, 1)
    rows = w.Reshape(w.Transpose(x, perm=[0, 2, 3, 1]), shape=[-1, channels])  # [N * H * W, C]
    image = w.Reshape(w.Mul(index, w.Mul(height, width)), shape=[-1, 1, 1])
    result = []
    for row, row_weight in zip(ys.indices, ys.weights, strict=True):
        line = w.Add(image, w.Unsqueeze(w.Mul(row, width), axes=[2]))
        for column, column_weight in zip(xs.indices, xs.weights, strict=True):
            spot = w.Add(line, w.Unsqueeze(column, axes=[1]))
            weight = w.Mul(w.Unsqueeze(row_weight, axes=[2]), w.Unsqueeze(column_weight, axes=[1]))
            values = w.Gather(rows, spot, axis=0)
            result.append(w.Mul(values, w.Unsqueeze(weight, axes=[3])))
    return result


ROI_ALIGN = NodeRule(
    "roi-align",
    "RoiAlign becomes gathers of its samples",
    ("RoiAlign",),
    _rewrite,
)
