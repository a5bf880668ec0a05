"""Rewrites DequantizeLinear that TensorRT refuses: uint8 around 128 as int8, weights without their zero points, constants
computed, else float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html: (x - x_zero_point) * x_scale, here in float32 and rounded
once to the type of the output. A uint8 value u of zero point 128 is the int8 value u - 128 of zero point 0, and both
saturate at the same x: so such a pair stays in TensorRT's int8.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import (
    NodeRule,
    NodeView,
    Refusal,
    Replacement,
)
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.dequantized_constants import computed, kept, output_type
from trtsmith.converter.rewrite.rules.quantized.element_types import all_equal, quantized_type
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity, granularity, spread
from trtsmith.converter.rewrite.rules.quantized.native_types import is_native, may_be_native


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given = node.dtype(0) or node.dtype(2)
    grain = granularity(node)
    if isinstance(grain, Refusal):
        return None if may_be_native(node, given) else grain
    if is_native(node, given, grain):
        return None
    signed = _signed_pair(node) or kept(node, grain)
    if signed is not None:
        return signed
    w, array = Writer(node), node.constant(0)
    if array is not None and node.is_constant(1) and (not node.input(2) or node.is_constant(2)):
        return Replacement(w.finish(computed(node, array, grain)), f"{given} constants, dequantized")
    return Replacement(w.finish(_arithmetic(w, grain)), f"dequantized from {given} by arithmetic in float32")


def _signed_pair(node: NodeView) -> Replacement | None:
    """A QuantizeLinear to uint8 around 128 and this node after it, as the same pair in int8."""
    maker = node.maker(0)
    if (
        maker is None
        or maker.op_type != "QuantizeLinear"
        or maker.dtype(0) not in ("float32", "float16", "bfloat16")
    ):
        return None
    dtype = quantized_type(maker)
    zeros, more = node.constant(2), maker.constant(2)
    if (
        dtype != "uint8"
        or zeros is None
        or more is None
        or not (all_equal(zeros, 128) and all_equal(more, 128))
    ):
        return None
    names = ("axis", "block_size", "precision", "output_dtype")
    w = Writer(node)
    into, out = (view.own(*names) for view in (maker, node))
    into.pop("output_dtype", None)
    signed = w.QuantizeLinear(*maker.inputs[:2], np.zeros(more.shape, np.int8), **into)
    return Replacement(
        w.finish(w.DequantizeLinear(signed, w.x[1], np.zeros(zeros.shape, np.int8), **out)),
        "uint8 around 128 as int8 around 0, which TensorRT fuses",
    )


def _arithmetic(w: Writer, grain: Granularity) -> Value:
    node = w.node
    steps = w.Cast(w.x[0], to="float32")
    if node.input(2) and not all_equal(node.constant(2), 0):
        steps = w.Sub(steps, spread(w, grain, 2))
    product = w.Mul(steps, spread(w, grain, 1))
    return product if output_type(node) == "float32" else w.Cast(product, to=output_type(node))


DEQUANTIZE_LINEAR = NodeRule(
    "dequantize",
    "DequantizeLinear with types or zero points that TensorRT lacks becomes a constant, int8 or float32 arithmetic",
    ("DequantizeLinear", "com.microsoft::DequantizeLinear"),
    _rewrite,
)
