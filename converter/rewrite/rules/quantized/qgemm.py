"""Rewrites onnxruntime's QGemm: an exact integer product, an int32 bias, one multiplication.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm: the bias is in steps of
a_scale * b_scale, and alpha is for both; without y_scale the output is float32.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.matmul_integer import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float, requantized, with_bias


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.attributes.get("transA") or node.attributes.get("transB"):
        return _transposed(node)
    w = Writer(node)
    total = integer_matmul(w, 0, 3, 2, 5)
    if isinstance(total, Refusal):
        return total
    if node.input(6):
        total = with_bias(w, total, 6, w.x[6])
    scale = w.Mul(w.x[1], w.x[4])
    alpha = float(node.attributes.get("alpha", 1.0))
    if alpha != 1.0:
        scale = w.Mul(alpha, scale)
    if not node.input(7):
        return Replacement(
            w.finish(w.Mul(as_float(w, total), scale)),
            "integer products, exact in float32, scaled",
            numerics=total.numerics,
        )
    scale = w.Div(scale, w.x[7])
    return requantized(w, total, scale, 8, node.dtype(0), "integer products, exact in float32, rescaled")


def _transposed(node: NodeView) -> Replacement:
    """The same without transA and transB: constants stay constants through a Transpose."""
    w = Writer(node)
    inputs = list(w.x)
    for index, attribute in ((0, "transA"), (3, "transB")):
        if node.attributes.get(attribute):
            array = node.constant(index)
            if array is None:
                inputs[index] = w.Transpose(w.x[index], perm=[1, 0])
            else:
                inputs[index] = w.constant(np.ascontiguousarray(array.T))
    alpha = float(node.attributes.get("alpha", 1.0))
    return Replacement(w.finish(w.QGemm(*inputs, alpha=alpha, domain="com.microsoft")), "operands transposed")


QGEMM = NodeRule(
    "qgemm",
    "QGemm becomes an exact product, its bias and its rounding",
    ("com.microsoft::QGemm",),
    _rewrite,
)
