"""DynamicQuantizeLinear as float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html; its function body divides zero by zero where all of the
tensor is zero. onnxruntime gives such a tensor the scale 1, and so does this.

TensorRT-RTX 1.6.1 divides float32 approximately: -2.5 over the scale 5 / 255, just short of 127.5 steps, became 128 of them
(seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import clip, reduce, round_
from trtsmith.converter.rewrite.rules.quantized.lines import Lines
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated
from trtsmith.importers.dtypes import NUMBERS

_TIES = (
    "TensorRT divides float32 approximately: a value within a rounding error of midway between two steps may take the "
    "other of the two"
)


def _rewrite(node: NodeView) -> Replacement | None:
    lines = Lines(node)
    zero = lines.number("zero", 0)
    lines.add(reduce("ReduceMin", "smallest", "x0", None, node.opset, keepdims=False))
    lines.add(reduce("ReduceMax", "largest", "x0", None, node.opset, keepdims=False))
    low = lines.op("low", "Min", "smallest", zero)
    high = lines.op("high", "Max", "largest", zero)
    span = lines.op("span", "Sub", high, low)
    step = lines.op("step", "Div", span, lines.number("levels", 255))
    scale = lines.op("scale", "Where", lines.op("flat", "Equal", span, zero), lines.number("one", 1), step)
    start = lines.op("start", "Sub", zero, lines.op("low_steps", "Div", low, scale))
    lines.add(clip("inside", start, 0, 255, node.opset, "float"))
    lines.add(round_("point", "inside", node.opset))
    if node.used(1):
        lines.op("y1", "Identity", scale)
    if node.used(2):
        lines.cast("y2", "point", NUMBERS["uint8"])
    if node.used(0):
        saturated(lines, lines.op("steps", "Div", "x0", scale), "point", "uint8", "y0")
    return Replacement(lines.nodes(), "quantised by arithmetic in float32", numerics=_TIES)


DYNAMIC_QUANTIZE_LINEAR = NodeRule(
    "dynamic-quantize",
    "DynamicQuantizeLinear becomes float32 arithmetic",
    ("DynamicQuantizeLinear",),
    _rewrite,
)
