"""Models that the rule qlinear-matmul takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

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


EXAMPLES = {"qlinear-matmul": _EXAMPLES}
