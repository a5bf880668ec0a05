"""Models that the rule qgemm takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

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


EXAMPLES = {"qgemm": _EXAMPLES}
