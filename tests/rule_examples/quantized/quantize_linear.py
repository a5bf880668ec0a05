"""Models that the rule quantize takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_AWKWARD = np.array(
    [[0.25, -0.25, 0.75, -0.75, 1e9, -1e9], [np.inf, -np.inf, -0.0, 127.25, 63.75, 3.3]], np.float32
)


_EXAMPLES = (
    Example(
        "uint8 of zero point 0, which TensorRT would take for int8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x) => (float[2, 6] y) <float scale = {0.5}, uint8 zero = {0}> {
            q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "before Round, and before Clip with inputs",
        """<ir_version: 5, opset_import: ["" : 10]>
        g (float[2, 6] x) => (float[2, 6] y) <float scale = {0.5}, uint8 middle = {117}> {
            q = QuantizeLinear (x, scale, middle)  y = DequantizeLinear (q, scale, middle)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "no zero point, which is one of uint8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x) => (float[2, 6] y) <float scale = {0.5}> {
            q = QuantizeLinear (x, scale)  y = DequantizeLinear (q, scale)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "an axis, odd zero points",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x) => (float[2, 6] y) <float[2] scale = {0.5, 0.25}, int8[2] zero = {3, -127}> {
            q = QuantizeLinear <axis = -2> (x, scale, zero)  y = DequantizeLinear <axis = 0> (q, scale, zero)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "blocks that do not divide the axis, 16 bits",
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 6] x) => (float[2, 6] y)
        <float[2, 2] scale = {0.5, 0.25, 1.5, 3.0}, uint16[2, 2] zero = {0, 65535, 32769, 7}> {
            q = QuantizeLinear <axis = 1, block_size = 4> (x, scale, zero)
            y = DequantizeLinear <axis = 1, block_size = 4> (q, scale, zero)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "a scale and a zero point of run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x, float[6] scale, float zero) => (float[2, 6] y) {
            five = Constant <value = int64[1] {6}> ()
            point = Cast <to = 2> (zero)
            points = Expand (point, five)
            q = QuantizeLinear (x, scale, points)  y = DequantizeLinear (q, scale, points)
        }""",
        feeds={
            "x": _AWKWARD,
            "scale": np.linspace(0.1, 1, 6, dtype=np.float32),
            "zero": np.array(131, np.float32),
        },
        builds=False,
        why="the zero point is uint8 inside the graph: its type is for another rule",
    ),
    Example(
        "division in float16",
        """<ir_version: 10, opset_import: ["" : 23]>
        g (float16[2, 6] x, float16 scale) => (float16[2, 6] y) <uint8 zero = {100}> {
            q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={
            "x": np.linspace(-20, 30, 12, dtype=np.float16).reshape(2, 6),
            "scale": np.array(0.3, np.float16),
        },
        reference=True,
    ),
)


EXAMPLES = {"quantize": _EXAMPLES}
