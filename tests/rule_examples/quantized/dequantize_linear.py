"""Models that the rule dequantize takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

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


EXAMPLES = {"dequantize": _EXAMPLES}
