"""onnxruntime's QGemm: an exact integer product, an int32 bias, one multiplication.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm: the bias is in steps of
a_scale * b_scale, and alpha is for both; without y_scale the output is float32.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float, requantised, with_bias


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.attributes.get("transA") or node.attributes.get("transB"):
        return _transposed(node)
    w = Writer(node)
    total = integer_matmul(w, 0, 3, 2, 5)
    if isinstance(total, Refusal):
        return total
    if node.input(6):
        total = with_bias(w, total, 6, "x6")
    scale = w.do("Mul", "x1", "x4")
    alpha = float(node.attributes.get("alpha", 1.0))
    if alpha != 1.0:
        scale = w.do("Mul", w.number(alpha, "float32"), scale)
    if not node.input(7):
        w.do("Mul", as_float(w, total), scale, result="y0")
        return Replacement(w.nodes(), "integer products, exact in float32, scaled", numerics=total.numerics)
    scale = w.do("Div", scale, "x7")
    return requantised(w, total, scale, 8, node.dtype(0), "integer products, exact in float32, rescaled")


def _transposed(node: NodeView) -> Replacement:
    """The same without transA and transB: constants stay constants through a Transpose."""
    w = Writer(node)
    inputs = [f"x{i}" if name else "" for i, name in enumerate(node.inputs)]
    for index, attribute in ((0, "transA"), (3, "transB")):
        if node.attributes.get(attribute):
            array = node.constant(index)
            constant = None if array is None else w.const(np.ascontiguousarray(array.T))
            inputs[index] = constant or w.transpose(inputs[index], [1, 0])
    alpha = float(node.attributes.get("alpha", 1.0))
    w.do("com.microsoft::QGemm", *inputs, result="y0", alpha=alpha)
    return Replacement(w.nodes(), "operands transposed")


_A = np.array([[0, 255, 128, 7], [250, 1, 2, 3], [9, 80, 70, 60]], np.uint8)

_EXAMPLES = (
    Example(
        "with bias and alpha",
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[3, 4] a) => (uint8[3, 2] y)
        <float sa = {0.01}, uint8 za = {113}, int8[2, 4] b = {1, -128, 127, 5, -6, 7, 90, -100},
         float[2] sb = {0.02, 0.01}, int8[2] zb = {0, 0}, int32[2] c = {3000, -50}, float sy = {0.05}, uint8 zy = {121}> {
            y = com.microsoft.QGemm <transB = 1, alpha = 0.75> (a, sa, za, b, sb, zb, c, sy, zy)
        }""",
        feeds={"a": _A},
    ),
    Example(
        "to float32",
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[3, 4] a) => (float[3, 2] y)
        <float sa = {0.01}, uint8 za = {113}, int8[4, 2] b = {1, -128, 127, 5, -6, 7, 90, -100},
         float sb = {0.02}, int8 zb = {4}, int32[2] c = {100000, -50}> {
            y = com.microsoft.QGemm (a, sa, za, b, sb, zb, c)
        }""",
        feeds={"a": _A},
    ),
)

QGEMM = NodeRule(
    "qgemm",
    "QGemm becomes an exact product, its bias and its rounding",
    ("com.microsoft::QGemm",),
    _rewrite,
    _EXAMPLES,
)
