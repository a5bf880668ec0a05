"""Models that the rules dynamic-quantize-matmul, matmul-integer-to-float take."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_X = np.array([[0.5, -1.25, 3.0, 2.2], [0.1, 7.5, -2.0, 0.0]], np.float32)


_WEIGHTS = "int8[4, 3] b = {1, -128, 127, 5, -6, 7, 90, -100, 3, 2, 1, 0}"


_EXAMPLES = (
    Example(
        "scales of columns and a bias",
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[2, 4] a, float sa, uint8 za) => (float[2, 3] y)
        <{_WEIGHTS}, float[3] sb = {{0.02, 0.01, 0.5}}, int8[3] zb = {{0, 1, -2}}, float[3] bias = {{1.0, -2.0, 0.5}}> {{
            y = com.microsoft.MatMulIntegerToFloat (a, b, sa, sb, za, zb, bias)
        }}""",
        feeds={
            "a": np.array([[0, 255, 128, 7], [250, 1, 2, 3]], np.uint8),
            "sa": np.array(0.03, np.float32),
            "za": np.array(120, np.uint8),
        },
    ),
)


_DYNAMIC_EXAMPLES = (
    Example(
        "an input of run time",
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[2, 4] x) => (float[2, 3] y)
        <{_WEIGHTS}, float[3] sb = {{0.02, 0.01, 0.5}}, int8[3] zb = {{0, 1, -2}}, float[3] bias = {{1.0, -2.0, 0.5}}> {{
            y = com.microsoft.DynamicQuantizeMatMul (x, b, sb, zb, bias)
        }}""",
        feeds={"x": _X},
    ),
)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "matmul-integer-to-float": _EXAMPLES,
    "dynamic-quantize-matmul": _DYNAMIC_EXAMPLES,
}
