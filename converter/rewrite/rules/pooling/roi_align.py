"""Rewrites RoiAlign, whose plugin TensorRT-RTX lacks: four gathers for each sample's corners, then a mean or a maximum.

Formula: ONNX's reference implementation. In mode "max" that takes the largest of the weighted corners, not the largest
interpolated sample.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer


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
    x = "x0" if dtype == "float32" else w.cast("x0", "float32")
    boxes = "x1" if node.dtype(1) == "float32" else w.cast("x1", "float32")
    boxes = w.do("Mul", boxes, w.number(scale, "float32"))
    if half:
        boxes = w.do("Sub", boxes, w.number(0.5, "float32"))
    ys = _AxisSamples(w, x, boxes, 1, 2, height, samples, half)
    xs = _AxisSamples(w, x, boxes, 0, 3, width, samples, half)
    corners = _corners(w, x, ys, xs)
    split = w.ints(-1, height, samples, width, samples)
    combine = w.do("Sum", *corners) if node.attributes.get("mode", "avg") == "avg" else w.do("Max", *corners)
    target = w.concat([split, w.size(x, 1)])
    bins = w.do("Reshape", combine, target)
    kind = "ReduceMean" if node.attributes.get("mode", "avg") == "avg" else "ReduceMax"
    pooled = w.reduce(kind, bins, [2, 4], keepdims=False)
    if dtype == "float32":
        w.transpose(pooled, [0, 3, 1, 2], result="y0")
    else:
        w.cast(w.transpose(pooled, [0, 3, 1, 2]), dtype, result="y0")
    return Replacement(w.nodes(), "RoiAlign by gathers of the samples' corners")


class _AxisSamples:
    """The samples along one axis of all boxes: indices int64[R, n] and weights float[R, n] of both neighbours."""

    def __init__(
        self, w: Writer, x: str, boxes: str, column: int, axis: int, bins: int, samples: int, half: bool
    ) -> None:
        start = w.slice_(boxes, [column], [column + 1], [1])  # [R, 1]
        extent = w.do("Sub", w.slice_(boxes, [column + 2], [column + 3], [1]), start)
        if not half:
            extent = w.do("Max", extent, w.number(1.0, "float32"))
        size = w.do("Div", extent, w.number(float(bins), "float32"))
        number = np.repeat(np.arange(bins, dtype=np.float32), samples)
        within = np.tile(np.arange(samples, dtype=np.float32) + np.float32(0.5), bins)
        place = w.do("Add", start, w.do("Mul", size, w.const(number[None])))
        inside = w.do("Div", w.do("Mul", size, w.const(within[None])), w.number(float(samples), "float32"))
        place = w.do("Add", place, inside)
        length = w.cast(w.size(x, axis), "float32")
        last = w.do("Sub", length, w.const(np.ones(1, np.float32)))
        low_enough = w.do("Not", w.do("Greater", place, length))
        valid = w.do("And", w.do("Not", w.do("Less", place, w.number(-1.0, "float32"))), low_enough)
        # Beyond the last row or column, and up to one before the first, the edge is taken as it is.
        place = w.do("Min", w.do("Max", place, w.number(0.0, "float32")), last)
        floor = w.do("Floor", place)
        high = w.do("Min", w.do("Add", floor, w.number(1.0, "float32")), last)
        part = w.do("Sub", place, floor)
        mask = w.cast(valid, "float32")
        self.indices = [w.cast(floor, "int64"), w.cast(high, "int64")]
        rest = w.do("Sub", w.number(1.0, "float32"), part)
        self.weights = [w.do("Mul", rest, mask), w.do("Mul", part, mask)]


def _corners(w: Writer, x: str, ys: _AxisSamples, xs: _AxisSamples) -> list[str]:
    """The four weighted corners of each sample, [R, samples along y, along x, C] each."""
    height, width = w.size(x, 2), w.size(x, 3)
    channels = w.size(x, 1)
    rows = w.reshape(w.transpose(x, [0, 2, 3, 1]), [w.ints(-1), channels])  # [N * H * W, C]
    index = w.cast("x2", "int64") if w.node.dtype(2) != "int64" else "x2"
    image = w.reshape(w.do("Mul", index, w.do("Mul", height, width)), [-1, 1, 1])
    result = []
    for row, row_weight in zip(ys.indices, ys.weights, strict=True):
        line = w.do("Add", image, w.unsqueeze(w.do("Mul", row, width), [2]))
        for column, column_weight in zip(xs.indices, xs.weights, strict=True):
            spot = w.do("Add", line, w.unsqueeze(column, [1]))
            weight = w.do("Mul", w.unsqueeze(row_weight, [2]), w.unsqueeze(column_weight, [1]))
            values = w.do("Gather", rows, spot, axis=0)
            result.append(w.do("Mul", values, w.unsqueeze(weight, [3])))
    return result


ROI_ALIGN = NodeRule(
    "roi-align",
    "RoiAlign becomes gathers of its samples",
    ("RoiAlign",),
    _rewrite,
)
