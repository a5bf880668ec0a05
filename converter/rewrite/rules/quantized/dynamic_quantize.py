"""Rewrites DynamicQuantizeLinear as float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html; its function body divides zero by zero where all of the
tensor is zero. onnxruntime gives such a tensor the scale 1, and so does this.

TensorRT-RTX 1.6.1 divides float32 approximately: -2.5 over the scale 5 / 255, just short of 127.5 steps, became 128 of them
(seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated

_TIES = (
    "TensorRT divides float32 approximately: a value within a rounding error of midway between two steps may take the "
    "other of the two"
)


def _rewrite(node: NodeView) -> Replacement | None:
    w = Writer(node)
    zero = w.number(0, "float32")
    smallest, largest = (w.reduce(op_type, "x0", None, False) for op_type in ("ReduceMin", "ReduceMax"))
    low, high = w.do("Min", smallest, zero), w.do("Max", largest, zero)
    span = w.do("Sub", high, low)
    step = w.do("Div", span, w.number(255, "float32"))
    scale = w.do("Where", w.do("Equal", span, zero), w.number(1, "float32"), step)
    start = w.do("Sub", zero, w.do("Div", low, scale))
    point = w.round_(w.clip(start, 0, 255, "float32"))
    if node.used(1):
        w.do("Identity", scale, result="y1")
    if node.used(2):
        w.cast(point, "uint8", "y2")
    if node.used(0):
        saturated(w, w.do("Div", "x0", scale), point, "uint8", "y0")
    return Replacement(w.nodes(), "quantized by arithmetic in float32", numerics=_TIES)


DYNAMIC_QUANTIZE_LINEAR = NodeRule(
    "dynamic-quantize",
    "DynamicQuantizeLinear becomes float32 arithmetic",
    ("DynamicQuantizeLinear",),
    _rewrite,
)
