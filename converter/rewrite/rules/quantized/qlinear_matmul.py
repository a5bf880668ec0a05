"""Rewrites QLinearMatMul as an exact integer product and one multiplication, as in onnxruntime.

https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html and
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md: the steps are
(A - a_zero) @ (B - b_zero) * (a_scale * b_scale / y_scale), rounded half to even, plus y_zero.

Rewrites onnxruntime's QGemm: an exact integer product, an int32 bias, one multiplication.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm: the bias is in steps of
a_scale * b_scale, and alpha is for both; without y_scale the output is float32.

Rewrites onnxruntime's QAttention: an exact integer projection to query, key and value, then attention in float.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention. What it writes are
MatMulIntegerToFloat and MultiHeadAttention, which other rules take.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention import stacked, unstacked
from trtsmith.converter.rewrite.rules.quantized.element_types import LOW_FLOATS
from trtsmith.converter.rewrite.rules.quantized.matmul_integer import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float, requantized, with_bias


@node_rule("qgemm", "com.microsoft::QGemm")
def qgemm_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites QGemm as an exact product, its bias and its rounding."""
    if node.attributes.get("transA") or node.attributes.get("transB"):
        return _transposed(node)
    w = Writer(node)
    total = unrefused(integer_matmul(w, 0, 3, 2, 5))
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
    """The same node without transA and transB; transposed constants stay constants."""
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


_COPIED = ("num_heads", "scale", "mask_filter_value", "unidirectional")


@node_rule("qattention", "com.microsoft::QAttention")
def qattention_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites QAttention as MatMulIntegerToFloat and MultiHeadAttention."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return Refusal(
                f"{name} = {node.attributes[name]}", f"{name} = 0", "export the model without this fusion"
            )
    weights = node.shape(1)
    if not weights or weights[-1] is None:
        return Refusal("the size of its weights is not known", "constant weights", "make them initializers")

    w = Writer(node)
    given = [w.x[index] if node.input(index) else None for index in range(9)]
    projected = w.MatMulIntegerToFloat(
        *w.x[:2], *w.x[3:5], given[6], given[7], given[2], domain="com.microsoft"
    )
    inputs: list[Value | None] = [*w.split(projected, [weights[-1] // 3] * 3, 2)]
    if node.input(5) or node.input(8):
        inputs += [None, given[5]]
    if node.input(8):
        inputs += [None, *unstacked(w, w.x[8])]
    result, *present = w.MultiHeadAttention(
        *inputs, outputs=3 if node.used(1) else 1, domain="com.microsoft", **node.own(*_COPIED)
    )
    return Replacement(
        w.finish(result, stacked(w, *present) if present else None),
        "an integer projection, then attention of its parts",
    )


@node_rule("qlinear-matmul", "QLinearMatMul")
def qlinear_matmul_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites QLinearMatMul as an exact product and its rounding."""
    if node.dtype(0) in LOW_FLOATS:
        return Refusal(
            f"it multiplies {node.dtype(0)}",
            "int8 or uint8",
            "export the model with DequantizeLinear and MatMul",
        )
    w = Writer(node)
    total = unrefused(integer_matmul(w, 0, 3, 2, 5))
    rank = node.rank(1)
    a_scale = w.x[1]
    if rank == 1 and node.shape(1) != (1,):  # one for each row
        a_scale = w.Unsqueeze(w.x[1], axes=[1])
    scale = w.Div(w.Mul(a_scale, w.x[4]), w.x[6])
    if node.dtype(1) != "float32":
        scale = w.Cast(scale, to="float32")
    return requantized(w, total, scale, 7, node.dtype(0), "integer products, exact in float32, rescaled")
