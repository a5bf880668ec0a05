"""Rewrites onnxruntime's CropAndResize, boxes of images in one size, as GridSample."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    """Boxes [y1, x1, y2, x2] of images, in fractions of size - 1, sampled corner to corner: TensorFlow's operator.

    onnxruntime's documentation gives the semantics. GridSample with aligned corners reads the same points; those outside
    the image are set to the extrapolation value, and what is nearest is decided here, as halves go up.
    """
    size, dims, dtype = node.constant(3), node.shape(0), float_type(node)
    if size is None or node.opset < 16:
        reason = (
            "crop_size is computed at run time" if size is None else f"the model is of opset {node.opset}"
        )
        return Refusal(
            reason, "a constant crop_size, and opset 16 or later", "export the model so, or freeze crop_size"
        )
    if size.shape != (2,):
        return Refusal(
            f"crop_size has the shape {list(size.shape)}",
            "two numbers: rows, columns",
            "export the model again",
        )
    height, width = dims[2:4] if dims and len(dims) == 4 else (None, None)
    if height is None or width is None or dtype is None:
        return unknown(node, 0, "a spatial size")
    if dtype != "float32":
        return Refusal(f"its type is {dtype}", "float32", "cast its inputs to float32")
    nearest = node.attributes.get("mode", "bilinear") == "nearest"
    w = Writer(node)
    rows, columns = int(size[0]), int(size[1])
    y, y_outside = _coordinates(w, 0, 2, rows, height, nearest)
    x, x_outside = _coordinates(w, 1, 3, columns, width, nearest)
    images = w.Gather(w.x[0], w.Cast(w.x[2], to="int64"), axis=0)
    y, x = w.Reshape(y, shape=[-1, rows, 1, 1]), w.Reshape(x, shape=[-1, 1, columns, 1])
    x_zeros, y_zeros = w.Sub(x, x), w.Sub(y, y)
    grid = w.Concat(w.Add(x, y_zeros), w.Add(y, x_zeros), axis=3)
    mode = "linear" if node.opset >= 20 else "bilinear"
    sampled = w.GridSample(images, grid, align_corners=1, padding_mode="border", mode=mode)
    outside = w.Or(
        w.Reshape(y_outside, shape=[-1, 1, rows, 1]), w.Reshape(x_outside, shape=[-1, 1, 1, columns])
    )
    beyond = node.attributes.get("extrapolation_value", 0.0)
    return Replacement(w.finish(w.Where(outside, beyond, sampled)), "GridSample of each box")


def _coordinates(
    w: Writer, first: int, last: int, count: int, size: int, nearest: bool
) -> tuple[Value, Value]:
    """Places a box's points along an axis, from -1 to 1, and marks those outside. first, last: columns of the box."""
    begin, end = (w.Gather(w.x[1], [column], axis=1) for column in (first, last))
    half, most = 0.5, float(size - 1)
    if count > 1:
        step = w.Div(w.Mul(w.Sub(end, begin), most), float(count - 1))
        place = w.Add(w.Mul(begin, most), w.Mul(step, np.arange(count, dtype=np.float32)))
    else:
        place = w.Mul(w.Mul(w.Add(begin, end), half), most)
    outside = w.Or(w.Less(place, 0.0), w.Greater(place, most))
    point = w.Floor(w.Add(place, half)) if nearest else place
    return w.Sub(w.Mul(point, float(2 / max(size - 1, 1))), 1.0), outside


CONTRIB_CROP = NodeRule(
    "contrib-crop",
    "onnxruntime's CropAndResize becomes GridSample",
    ("com.microsoft::CropAndResize",),
    _rewrite,
)
