"""Rewrites mmcv's alignment of features to rotated boxes as samples at one or five points of each box.

Yang et al., R3Det, arXiv 1908.05612. Source: open-mmlab/mmcv 1.x, mmcv/ops/csrc/onnxruntime/cpu/rotated_feature_align.cpp:
the boxes [N, H, W, 5] are (y, x, w, h, angle in radians), points are pixels, those up to a pixel outside take the outermost
pixel, and those further outside are zero. The samples are added to the features.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.sampling import OPSET, grid_sample
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    too_old,
    wide,
)

_CORNERS = ((1, 1), (-1, 1), (-1, -1), (1, -1))
"""Along the width and the height of a box."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given = settings(node, spatial_scale=float, points=1)
    if isinstance(given, Refusal):
        return given
    points, dtype, dims = given["points"], str(node.dtype(0)), node.shape(0)
    if points not in (1, 5):
        return Refusal(f"its points are {points}", "1 or 5", "export the node with 1 or 5 points")
    if dims is None or len(dims) != 4 or dims[2] is None or dims[3] is None:
        return unknown(node, 0, "a spatial size")
    if node.opset < OPSET:
        return too_old(node, OPSET, "GridSample")
    w = Writer(node)
    features = wide(w, "x0", dtype)
    total = features
    for y, x in _points(w, float(given["spatial_scale"]), points):
        total = w.do("Add", total, _sample(w, features, y, x, dims[2], dims[3]))
    narrow(w, total, dtype, "y0")
    return Replacement(w.nodes(), f"{points} GridSample" if points == 1 else f"sums of {points} GridSample")


def _points(w: Writer, scale: float, points: int) -> list[tuple[str, str]]:
    """(y, x) of each point in pixels, [N, H, W, 1]."""
    boxes = wide(w, "x1", w.node.dtype(1))
    columns = w.split(boxes, [1] * 5, 3)
    factor = w.number(scale, "float32")
    y, x = (w.do("Mul", column, factor) for column in columns[:2])
    found = [(y, x)]
    if points == 1:
        return found
    half = w.number(0.5, "float32")
    width, height = (w.do("Mul", w.do("Mul", column, factor), half) for column in columns[2:4])
    cos, sin = w.do("Cos", columns[4]), w.do("Sin", columns[4])
    along = w.do("Mul", sin, width), w.do("Mul", cos, width)
    across = w.do("Mul", cos, height), w.do("Neg", w.do("Mul", sin, height))
    for of_width, of_height in _CORNERS:
        corner = [
            w.do("Add" if of_height > 0 else "Sub", w.do("Add" if of_width > 0 else "Sub", at, a), b)
            for at, a, b in zip((y, x), along, across, strict=True)
        ]
        found.append((corner[0], corner[1]))
    return found


def _sample(w: Writer, features: str, y: str, x: str, height: int, width: int) -> str:
    outside, parts = "", []
    for at, size in ((x, width), (y, height)):
        above = w.do("Less", w.number(size, "float32"), at)
        out = w.do("Or", w.do("Less", at, w.number(-1.0, "float32")), above)
        outside = w.do("Or", outside, out) if outside else out
        step = w.do("Mul", at, w.number(2 / max(size - 1, 1), "float32"))
        parts.append(w.do("Sub", step, w.number(1.0, "float32")))
    sampled = grid_sample(w, features, w.concat(parts, 3), "bilinear", "border", True)
    return w.do("Where", w.transpose(outside, [0, 3, 1, 2]), w.number(0.0, "float32"), sampled)


STOCK_ROTATED_FEATURE_ALIGN = NodeRule(
    "stock-rotated-feature-align",
    "mmcv's alignment of features to rotated boxes becomes GridSample",
    kinds("MMCVRotatedFeatureAlign", domains=("mmcv", "mmdeploy")),
    checked({"MMCVRotatedFeatureAlign": PluginPorts(2, floats=(0, 1))}, _rewrite),
    opset=OPSET,
)
