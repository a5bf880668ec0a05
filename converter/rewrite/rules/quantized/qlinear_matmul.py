"""Rewrites QLinearMatMul as an exact integer product and one multiplication, as onnxruntime does.

https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html and
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md: the steps are
(A - a_zero) @ (B - b_zero) * (a_scale * b_scale / y_scale), rounded half to even, plus y_zero.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import LOW_FLOATS
from trtsmith.converter.rewrite.rules.quantized.matmul_integer import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import requantized


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.dtype(0) in LOW_FLOATS:
        return Refusal(
            f"it multiplies {node.dtype(0)}",
            "int8 or uint8",
            "export the model with DequantizeLinear and MatMul",
        )
    w = Writer(node)
    total = integer_matmul(w, 0, 3, 2, 5)
    if isinstance(total, Refusal):
        return total
    rank = node.rank(1)
    a_scale = w.x[1]
    if rank == 1 and node.shape(1) != (1,):  # one for each row
        a_scale = w.Unsqueeze(w.x[1], axes=[1])
    scale = w.Div(w.Mul(a_scale, w.x[4]), w.x[6])
    if node.dtype(1) != "float32":
        scale = w.Cast(scale, to="float32")
    return requantized(w, total, scale, 7, node.dtype(0), "integer products, exact in float32, rescaled")


QLINEAR_MATMUL = NodeRule(
    "qlinear-matmul",
    "QLinearMatMul becomes an exact product and its rounding",
    ("QLinearMatMul",),
    _rewrite,
)
