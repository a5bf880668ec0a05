"""Rewrites onnxruntime's CropAndResize, boxes of images in one size, as GridSample."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
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
    images = w.do("Gather", "x0", w.cast("x2", "int64"), axis=0)
    y, x = w.reshape(y, [-1, rows, 1, 1]), w.reshape(x, [-1, 1, columns, 1])
    x_zeros, y_zeros = w.do("Sub", x, x), w.do("Sub", y, y)
    grid = w.concat([w.do("Add", x, y_zeros), w.do("Add", y, x_zeros)], 3)
    mode = "linear" if node.opset >= 20 else "bilinear"
    sampled = w.do("GridSample", images, grid, align_corners=1, padding_mode="border", mode=mode)
    outside = w.do("Or", w.reshape(y_outside, [-1, 1, rows, 1]), w.reshape(x_outside, [-1, 1, 1, columns]))
    beyond = w.number(node.attributes.get("extrapolation_value", 0.0), "float32")
    w.do("Where", outside, beyond, sampled, result="y0")
    return Replacement(w.nodes(), "GridSample of each box")


def _coordinates(w: Writer, first: int, last: int, count: int, size: int, nearest: bool) -> tuple[str, str]:
    """Places a box's points along an axis, from -1 to 1, and marks those outside. first, last: columns of the box."""
    begin, end = (w.do("Gather", "x1", w.ints(column), axis=1) for column in (first, last))
    half, most = w.number(0.5, "float32"), w.number(size - 1, "float32")
    if count > 1:
        extent = w.do("Mul", w.do("Sub", end, begin), most)
        step = w.do("Div", extent, w.number(count - 1, "float32"))
        offset = w.do("Mul", step, np.arange(count, dtype=np.float32))
        place = w.do("Add", w.do("Mul", begin, most), offset)
    else:
        place = w.do("Mul", w.do("Mul", w.do("Add", begin, end), half), most)
    below = w.do("Less", place, w.number(0.0, "float32"))
    outside = w.do("Or", below, w.do("Greater", place, most))
    point = w.do("Floor", w.do("Add", place, half)) if nearest else w.do("Identity", place)
    scaled = w.do("Mul", point, w.number(2 / max(size - 1, 1), "float32"))
    return w.do("Sub", scaled, w.number(1.0, "float32")), outside


CONTRIB_CROP = NodeRule(
    "contrib-crop",
    "onnxruntime's CropAndResize becomes GridSample",
    ("com.microsoft::CropAndResize",),
    _rewrite,
)
