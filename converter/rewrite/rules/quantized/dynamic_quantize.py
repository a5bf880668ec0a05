"""Rewrites DynamicQuantizeLinear as float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html; its function body divides zero by zero where all of the
tensor is zero. onnxruntime gives such a tensor the scale 1, and so does this.

TensorRT-RTX 1.6.1 divides float32 approximately: -2.5 over the scale 5 / 255, just short of 127.5 steps, became 128 of them
(seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated

_TIES = (
    "TensorRT divides float32 approximately: a value almost midway between two steps may take the other one"
)


@node_rule("dynamic-quantize", "DynamicQuantizeLinear")
def dynamic_quantize_linear_rule(node: NodeView) -> Replacement | None:
    """Rewrites DynamicQuantizeLinear as float32 arithmetic."""
    w = Writer(node)
    smallest, largest = (w.reduce(op_type, w.x[0], None, False) for op_type in ("ReduceMin", "ReduceMax"))
    low, high = w.Min(smallest, 0.0), w.Max(largest, 0.0)
    span = w.Sub(high, low)
    scale = w.Where(w.Equal(span, 0.0), 1.0, w.Div(span, 255.0))
    point = w.round(w.clip(w.Sub(0.0, w.Div(low, scale)), 0, 255, "float32"))
    result = saturated(w, w.Div(w.x[0], scale), point, "uint8")
    nodes = w.finish(result, scale, w.Cast(point, to="uint8"))
    return Replacement(nodes, "quantized by arithmetic in float32", numerics=_TIES)
