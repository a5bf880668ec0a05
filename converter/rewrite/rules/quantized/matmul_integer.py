"""Rewrites MatMulInteger as exact products of 8-bit matrices, in int32.

Rewrites onnxruntime's MatMulIntegerToFloat and DynamicQuantizeMatMul: an exact product, scaled, plus a bias.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from functools import partial

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.exact_products import ProductSlicing, Slice, Sum, exact_sum
from trtsmith.converter.rewrite.rules.quantized.operands import operand, require_8_bits
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float


def integer_matmul(w: Writer, a: int, b: int, a_zero: int, b_zero: int) -> Sum | Refusal:
    """Writes (A - a_zero) @ (B - b_zero), for the inputs with these numbers.

    A vector as A's zero point is for its rows, as B's for its columns; others broadcast.
    """
    node = w.node
    zero_a = node.constant(a_zero) if node.input(a_zero) else None
    vector = (node.rank(a_zero) if zero_a is None else zero_a.ndim) == 1
    require_8_bits(node, (a, a_zero), (b, b_zero))
    rows = vector and node.known_rank(a) != 1
    left = operand(w, a, a_zero, [1] if rows else [], lambda zeros: zeros.reshape(-1, 1) if rows else zeros)
    right = operand(w, b, b_zero)
    result = exact_sum(w, left, right, _reduction(node, a, b, node.known_rank(b)))
    assert result is not None  # a unit of one term always fits
    return result


def _reduction(node: NodeView, a: int, b: int, rank_b: int) -> ProductSlicing:
    shape_a, shape_b = node.shape(a) or (None,), node.shape(b) or (None,)
    axis = -2 if rank_b > 1 else 0
    length = shape_a[-1] if shape_a[-1] is not None else shape_b[axis]

    def sliced(w: Writer, value: Value, part: Slice, on: int) -> Value:
        return w.slice(value, [part[0]], [part[1]], [on])

    def magnitudes(array: np.ndarray) -> np.ndarray:
        return np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis]).astype(np.int64)

    def cut(array: np.ndarray, part: Slice) -> np.ndarray:
        return array.take(range(*part), axis)

    return ProductSlicing(
        length,
        1,
        magnitudes,
        partial(sliced, on=-1),
        partial(sliced, on=axis),
        lambda w, x, y: w.MatMul(x, y),
        cut,
    )


@node_rule("matmul-integer-to-float", "com.microsoft::MatMulIntegerToFloat")
def matmul_to_float_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites MatMulIntegerToFloat as an exact product and its scale."""
    w = Writer(node)
    total = unrefused(integer_matmul(w, 0, 1, 4, 5))
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


@node_rule("dynamic-quantize-matmul", "com.microsoft::DynamicQuantizeMatMul")
def dynamic_quantize_matmul_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites DynamicQuantizeMatMul as DynamicQuantizeLinear and MatMulIntegerToFloat."""
    if node.opset < 11:
        return Refusal(
            "DynamicQuantizeLinear is of opset 11", "opset 11 or later", "export the model with opset 11"
        )
    w = Writer(node)
    numbers, scale, zero = w.DynamicQuantizeLinear(w.x[0], outputs=3)
    operands = (numbers, w.x[1], scale, w.x[2], zero, *w.x[3:5])
    result = w.MatMulIntegerToFloat(*operands, domain="com.microsoft")
    return Replacement(w.finish(result), "its input quantized, then a product of integers")


@node_rule("matmul-integer", "MatMulInteger")
def matmul_integer_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites products of 8-bit matrices as exact float32 products."""
    w = Writer(node)
    result = unrefused(integer_matmul(w, 0, 1, 2, 3))
    return Replacement(
        w.finish(result.as_int32(w)), "integer products, exact in float32", numerics=result.numerics
    )
