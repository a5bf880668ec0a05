"""onnxruntime's MatMulIntegerToFloat and DynamicQuantizeMatMul: an exact integer product, scaled, plus a bias.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
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
    return Replacement(w.nodes(), "its input quantised, then a product of integers")


_X = np.array([[0.5, -1.25, 3.0, 2.2], [0.1, 7.5, -2.0, 0.0]], np.float32)
_WEIGHTS = "int8[4, 3] b = {1, -128, 127, 5, -6, 7, 90, -100, 3, 2, 1, 0}"

_EXAMPLES = (
    Example(
        "scales of columns and a bias",
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[2, 4] a, float sa, uint8 za) => (float[2, 3] y)
        <{_WEIGHTS}, float[3] sb = {{0.02, 0.01, 0.5}}, int8[3] zb = {{0, 1, -2}}, float[3] bias = {{1.0, -2.0, 0.5}}> {{
            y = com.microsoft.MatMulIntegerToFloat (a, b, sa, sb, za, zb, bias)
        }}""",
        feeds={
            "a": np.array([[0, 255, 128, 7], [250, 1, 2, 3]], np.uint8),
            "sa": np.array(0.03, np.float32),
            "za": np.array(120, np.uint8),
        },
    ),
)

_DYNAMIC_EXAMPLES = (
    Example(
        "an input of run time",
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[2, 4] x) => (float[2, 3] y)
        <{_WEIGHTS}, float[3] sb = {{0.02, 0.01, 0.5}}, int8[3] zb = {{0, 1, -2}}, float[3] bias = {{1.0, -2.0, 0.5}}> {{
            y = com.microsoft.DynamicQuantizeMatMul (x, b, sb, zb, bias)
        }}""",
        feeds={"x": _X},
    ),
)

MATMUL_TO_FLOAT = NodeRule(
    "matmul-integer-to-float",
    "MatMulIntegerToFloat becomes an exact product and its scale",
    ("com.microsoft::MatMulIntegerToFloat",),
    _to_float,
    _EXAMPLES,
)
DYNAMIC_QUANTIZE_MATMUL = NodeRule(
    "dynamic-quantize-matmul",
    "DynamicQuantizeMatMul becomes DynamicQuantizeLinear and MatMulIntegerToFloat",
    ("com.microsoft::DynamicQuantizeMatMul",),
    _dynamic,
    _DYNAMIC_EXAMPLES,
)
