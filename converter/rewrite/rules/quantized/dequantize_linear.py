"""DequantizeLinear that TensorRT refuses: uint8 around 128 as int8, weights without their zero points, constants
computed, else float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html: (x - x_zero_point) * x_scale, here in float32 and rounded
once to the type of the output. A uint8 value u of zero point 128 is the int8 value u - 128 of zero point 0, and both
saturate at the same x: so such a pair stays in TensorRT's int8.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import (
    Example,
    NodeRule,
    NodeView,
    Refusal,
    Replacement,
)
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.dequantized_constants import computed, kept, output_type
from trtsmith.converter.rewrite.rules.quantized.element_types import all_equal, quantised_type
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
    array = node.constant(0)
    if array is not None and node.is_constant(1) and (not node.input(2) or node.is_constant(2)):
        w = Writer(node)
        w.do("Identity", computed(node, array, grain), result="y0")
        return Replacement(w.nodes(), f"{given} constants, dequantised")
    return Replacement(_arithmetic(node, grain).nodes(), f"dequantised from {given} by arithmetic in float32")


def _signed_pair(node: NodeView) -> Replacement | None:
    """A QuantizeLinear to uint8 around 128 and this node after it, as the same pair in int8."""
    maker = node.maker(0)
    if (
        maker is None
        or maker.op_type != "QuantizeLinear"
        or maker.dtype(0) not in ("float32", "float16", "bfloat16")
    ):
        return None
    dtype = quantised_type(maker)
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
    inputs = (w.value(name) for name in maker.inputs[:2])
    signed = w.do("QuantizeLinear", *inputs, np.zeros(more.shape, np.int8), **into)
    w.do("DequantizeLinear", signed, "x1", np.zeros(zeros.shape, np.int8), result="y0", **out)
    return Replacement(w.nodes(), "uint8 around 128 as int8 around 0, which TensorRT fuses")


def _arithmetic(node: NodeView, grain: Granularity) -> Writer:
    w = Writer(node)
    steps = w.cast("x0", "float32")
    if node.input(2) and not all_equal(node.constant(2), 0):
        steps = w.do("Sub", steps, spread(w, grain, 2))
    product = w.do("Mul", steps, spread(w, grain, 1), result="y0" if output_type(node) == "float32" else "")
    if output_type(node) != "float32":
        w.cast(product, output_type(node), "y0")
    return w


_EXAMPLES = (
    Example(
        "uint8 around 128 is int8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 5] x) => (float[2, 5] y) <float scale = {0.5}, uint8 zero = {128}> {
            q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={
            "x": np.array([[0.25, -0.75, 63.75, -64.25, 1e9], [-1e9, -0.0, 1.25, 63.2, -63.9]], np.float32)
        },
    ),
    Example(
        "weights of all kinds, and a bias",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3] x) => (float[2, 4] y)
        <uint8[3, 4] w = {0, 255, 128, 7, 130, 1, 2, 3, 4, 5, 6, 200}, float[4] sw = {0.5, 0.25, 0.125, 2.0},
         uint8[4] zw = {128, 128, 128, 128}, uint8[3, 4] v = {0, 255, 128, 7, 130, 1, 2, 3, 4, 5, 6, 200},
         uint8[4] zv = {0, 255, 7, 128}, int32[4] b = {100000, -5, 7, 0}, int32[4] zb = {0, 0, 0, 0}> {
            weight = DequantizeLinear <axis = -1> (w, sw, zw)
            other = DequantizeLinear <axis = 1> (v, sw, zv)
            both = Sub (weight, other)
            bias = DequantizeLinear <axis = 0> (b, sw, zb)
            product = MatMul (x, both)
            y = Add (product, bias)
        }""",
    ),
    Example(
        "blocks, scales of both signs and none",
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 4] x) => (float[2, 2] y)
        <int8[4, 2] w = {1, -128, 127, 5, -6, 7, 90, -100}, int8[2, 2] zero = {0, -1, -5, 0},
         float[2, 2] scale = {-0.5, 0.25, -0.0, -2.0}, uint4[4, 2] v = {18, 137, 241, 112},
         uint4[2, 2] middle = {136, 136}> {
            weight = DequantizeLinear <axis = 0, block_size = 2> (w, scale, zero)
            other = DequantizeLinear <axis = 0, block_size = 2> (v, scale, middle)
            both = Sub (weight, other)
            y = MatMul (x, both)
        }""",
    ),
    Example(
        "integers of run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (int32[2, 3] x, float scale) => (float[2, 3] y) { y = DequantizeLinear (x, scale) }""",
        feeds={
            "x": np.array([[1, -5, 2**30], [-(2**31), 0, 7]], np.int32),
            "scale": np.array(0.3, np.float32),
        },
    ),
    Example(
        "two bits, three weights",
        """<ir_version: 13, opset_import: ["" : 25]>
        g (float16[3] x) => (float16[3] y) <int2[3] w = {9}, int2 zero = {1}> {
            scale = Constant <value = float16 {15360}> ()
            weight = DequantizeLinear (w, scale, zero)
            y = Mul (x, weight)
        }""",
        reference=True,
    ),
)

DEQUANTIZE_LINEAR = NodeRule(
    "dequantize",
    "DequantizeLinear with types or zero points that TensorRT lacks becomes a constant, int8 or float32 arithmetic",
    ("DequantizeLinear", "com.microsoft::DequantizeLinear"),
    _rewrite,
    _EXAMPLES,
)
