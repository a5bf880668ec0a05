"""Rewrites onnxruntime's MatMulIntegerToFloat and DynamicQuantizeMatMul: an exact product, scaled, plus a bias.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float


def _to_float(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    total = integer_matmul(w, 0, 1, 4, 5)
    if isinstance(total, Refusal):
        return total
    dtype = node.dtype(2) or "float32"
    scale = w.Mul(w.x[2], w.x[3])
    if dtype != "float32":
        scale = w.Cast(scale, to="float32")
    result = w.Mul(as_float(w, total), scale)
    if node.input(6):
        result = w.Add(result, w.x[6] if dtype == "float32" else w.Cast(w.x[6], to="float32"))
    return Replacement(
        w.finish(w.Cast(result, to=dtype)),
        "integer products, exact in float32, scaled",
        numerics=total.numerics,
    )


def _dynamic(node: NodeView) -> Replacement | Refusal | None:
    if node.opset < 11:
        return Refusal(
            "DynamicQuantizeLinear is of opset 11", "opset 11 or later", "export the model with opset 11"
        )
    w = Writer(node)
    numbers, scale, zero = w.DynamicQuantizeLinear(w.x[0], outputs=3)
    operands = (numbers, w.x[1], scale, w.x[2], zero, *w.x[3:5])
    result = w.MatMulIntegerToFloat(*operands, domain="com.microsoft")
    return Replacement(w.finish(result), "its input quantized, then a product of integers")


MATMUL_TO_FLOAT = NodeRule(
    "matmul-integer-to-float",
    "MatMulIntegerToFloat becomes an exact product and its scale",
    ("com.microsoft::MatMulIntegerToFloat",),
    _to_float,
)
DYNAMIC_QUANTIZE_MATMUL = NodeRule(
    "dynamic-quantize-matmul",
    "DynamicQuantizeMatMul becomes DynamicQuantizeLinear and MatMulIntegerToFloat",
    ("com.microsoft::DynamicQuantizeMatMul",),
    _dynamic,
)
