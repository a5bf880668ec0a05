"""onnxruntime's CropAndResize: boxes of images, resized to one size."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import ints
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, number, unknown


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
    height, width = dims[2:4] if dims and len(dims) == 4 else (None, None)
    if height is None or width is None or dtype is None:
        return unknown(node, 0, "a spatial size")
    if dtype != "float32":
        return Refusal(f"its type is {dtype}", "float32", "cast its inputs to float32")
    nearest = node.attributes.get("mode", "bilinear") == "nearest"
    lines = [_coordinates(axis, int(size[i]), (height, width)[i], nearest) for i, axis in enumerate("yx")]
    rows, columns = int(size[0]), int(size[1])
    lines += [
        "ids = Cast <to = 7> (x2)",
        "images = Gather <axis = 0> (x0, ids)",
        ints("y_shape", [-1, rows, 1, 1]),
        ints("x_shape", [-1, 1, columns, 1]),
        "y_places = Reshape (y_unit, y_shape)",
        "x_places = Reshape (x_unit, x_shape)",
        "x_zeros = Sub (x_places, x_places)",
        "y_zeros = Sub (y_places, y_places)",
        "x_grid = Add (x_places, y_zeros)",
        "y_grid = Add (y_places, x_zeros)",
        "grid = Concat <axis = 3> (x_grid, y_grid)",
        f'sampled = GridSample <align_corners = 1, padding_mode = "border", mode = "{_mode(node.opset)}"> (images, grid)',
        ints("y_mask_shape", [-1, 1, rows, 1]),
        ints("x_mask_shape", [-1, 1, 1, columns]),
        "y_mask = Reshape (y_outside, y_mask_shape)",
        "x_mask = Reshape (x_outside, x_mask_shape)",
        "outside = Or (y_mask, x_mask)",
        number("elsewhere", node.attributes.get("extrapolation_value", 0.0), "float32"),
        "y0 = Where (outside, elsewhere, sampled)",
    ]
    return Replacement(node.statements("\n".join(lines)), "GridSample of each box")


def _mode(opset: int) -> str:
    return "linear" if opset >= 20 else "bilinear"


def _coordinates(axis: str, count: int, size: int, nearest: bool) -> str:
    """Where the points of a box lie along an axis, from -1 to 1 (`axis`_unit), and which lie outside."""
    first, last = (0, 2) if axis == "y" else (1, 3)
    if count > 1:
        steps = np.arange(count, dtype=np.float32)
        listed = ", ".join(repr(float(step)) for step in steps)
        place = f"""
            {axis}_steps = Constant <value = float[{count}] {{{listed}}}> ()
            {axis}_extent = Sub ({axis}_last, {axis}_first)
            {number(f"{axis}_size", size - 1, "float32")}
            {number(f"{axis}_intervals", count - 1, "float32")}
            {axis}_length = Mul ({axis}_extent, {axis}_size)
            {axis}_step = Div ({axis}_length, {axis}_intervals)
            {axis}_start = Mul ({axis}_first, {axis}_size)
            {axis}_offset = Mul ({axis}_step, {axis}_steps)
            {axis}_place = Add ({axis}_start, {axis}_offset)
        """
    else:
        place = f"""
            {number(f"{axis}_size", size - 1, "float32")}
            {number(f"{axis}_half", 0.5, "float32")}
            {axis}_pair = Add ({axis}_first, {axis}_last)
            {axis}_middle = Mul ({axis}_pair, {axis}_half)
            {axis}_place = Mul ({axis}_middle, {axis}_size)
        """
    rounded = f"""
        {number(f"{axis}_up", 0.5, "float32")}
        {axis}_raised = Add ({axis}_place, {axis}_up)
        {axis}_point = Floor ({axis}_raised)
    """
    return f"""
        {ints(f"{axis}_first_index", [first])}
        {ints(f"{axis}_last_index", [last])}
        {axis}_first = Gather <axis = 1> (x1, {axis}_first_index)
        {axis}_last = Gather <axis = 1> (x1, {axis}_last_index)
        {place}
        {number(f"{axis}_zero", 0.0, "float32")}
        {number(f"{axis}_one", 1.0, "float32")}
        {axis}_below = Less ({axis}_place, {axis}_zero)
        {axis}_above = Greater ({axis}_place, {axis}_size)
        {axis}_outside = Or ({axis}_below, {axis}_above)
        {rounded if nearest else f"{axis}_point = Identity ({axis}_place)"}
        {number(f"{axis}_scale", 2 / max(size - 1, 1), "float32")}
        {axis}_scaled = Mul ({axis}_point, {axis}_scale)
        {axis}_unit = Sub ({axis}_scaled, {axis}_one)
    """


CONTRIB_CROP = NodeRule(
    "contrib-crop",
    "onnxruntime's CropAndResize becomes GridSample",
    ("com.microsoft::CropAndResize",),
    _rewrite,
)
