"""QLinearMatMul: an exact integer product, then one multiplication, as onnxruntime does.

https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html and
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md: the steps are
(A - a_zero) @ (B - b_zero) * (a_scale * b_scale / y_scale), rounded half to even, plus y_zero.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import LOW_FLOATS
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import requantised


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
    a_scale = "x1"
    if rank == 1 and node.shape(1) != (1,):  # one for each row
        a_scale = w.unsqueeze("x1", [1])
    scale = w.do("Div", w.do("Mul", a_scale, "x4"), "x6")
    if node.dtype(1) != "float32":
        scale = w.cast(scale, "float32")
    return requantised(w, total, scale, 7, node.dtype(0), "integer products, exact in float32, rescaled")


_A = np.array([[0, 255, 128, 7], [250, 1, 2, 3], [9, 80, 70, 60]], np.uint8)

_EXAMPLES = (
    Example(
        "scales of rows and columns",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[3, 4] a) => (uint8[3, 2] y)
        <float[1] sa = {0.01}, uint8[1] za = {113}, int8[4, 2] b = {1, -128, 127, 5, -6, 7, 90, -100},
         float[2] sb = {0.02, 0.01}, int8[2] zb = {0, -3}, float sy = {0.05}, uint8 zy = {121}> {
            y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy)
        }""",
        feeds={"a": _A},
        reference=True,
    ),
    Example(
        "int8 from uint8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[3, 4] a) => (int8[3, 2] y)
        <float sa = {0.01}, uint8 za = {113}, uint8[4, 2] b = {1, 128, 127, 5, 255, 7, 90, 0},
         float sb = {0.02}, uint8 zb = {200}, float sy = {0.04}, int8 zy = {-7}> {
            y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy)
        }""",
        feeds={"a": _A},
        reference=True,
    ),
)

QLINEAR_MATMUL = NodeRule(
    "qlinear-matmul",
    "QLinearMatMul becomes an exact product and its rounding",
    ("QLinearMatMul",),
    _rewrite,
    _EXAMPLES,
)
