"""onnxruntime's MatMulIntegerToFloat and DynamicQuantizeMatMul: an exact integer product, scaled, plus a bias.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.quantized.lines import FLOAT, Lines
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float
from trtsmith.importers.dtypes import NUMBERS


def _to_float(node: NodeView) -> Replacement | Refusal | None:
    lines = Lines(node)
    total = integer_matmul(lines, 0, 1, 4, 5)
    if isinstance(total, Refusal):
        return total
    dtype = node.dtype(2) or "float32"
    scale = lines.op("scale", "Mul", "x2", "x3")
    if dtype != "float32":
        scale = lines.cast("wide_scale", scale, FLOAT)
    result = lines.op("product", "Mul", as_float(lines, total), scale)
    if node.input(6):
        bias = "x6" if dtype == "float32" else lines.cast("wide_bias", "x6", FLOAT)
        result = lines.op("biased", "Add", result, bias)
    lines.cast("y0", result, NUMBERS[dtype])
    return Replacement(lines.nodes(), "integer products, exact in float32, scaled", numerics=total.numerics)


def _dynamic(node: NodeView) -> Replacement | Refusal | None:
    if node.opset < 11:
        return Refusal(
            "DynamicQuantizeLinear is of opset 11", "opset 11 or later", "export the model with opset 11"
        )
    zero, bias = ("x3" if node.input(3) else '""'), ("x4" if node.input(4) else '""')
    body = f"""
        quantised, scale, zero = DynamicQuantizeLinear (x0)
        y0 = com.microsoft.MatMulIntegerToFloat (quantised, x1, scale, x2, zero, {zero}, {bias})
    """
    return Replacement(statements(node, body), "its input quantised, then a product of integers")


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
