"""Rewrites onnxruntime's MatMulIntegerToFloat and DynamicQuantizeMatMul: an exact product, scaled, plus a bias.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float


def _to_float(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    total = integer_matmul(w, 0, 1, 4, 5)
    if isinstance(total, Refusal):
        return total
    dtype = node.dtype(2) or "float32"
    scale = w.do("Mul", "x2", "x3")
    if dtype != "float32":
        scale = w.cast(scale, "float32")
    result = w.do("Mul", as_float(w, total), scale)
    if node.input(6):
        result = w.do("Add", result, "x6" if dtype == "float32" else w.cast("x6", "float32"))
    w.cast(result, dtype, "y0")
    return Replacement(w.nodes(), "integer products, exact in float32, scaled", numerics=total.numerics)


def _dynamic(node: NodeView) -> Replacement | Refusal | None:
    if node.opset < 11:
        return Refusal(
            "DynamicQuantizeLinear is of opset 11", "opset 11 or later", "export the model with opset 11"
        )
    w = Writer(node)
    w.many("DynamicQuantizeLinear", ["x0"], ["numbers", "scale", "zero"])
    given = ["x3" if node.input(3) else "", "x4" if node.input(4) else ""]
    w.do("com.microsoft::MatMulIntegerToFloat", "numbers", "x1", "scale", "x2", "zero", *given, result="y0")
    return Replacement(w.nodes(), "its input quantized, then a product of integers")


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
