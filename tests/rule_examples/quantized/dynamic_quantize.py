"""Models that the rule dynamic-quantize takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_TEXT = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[2, 5] x) => (float[2, 5] y, float scale) {
        q, scale, zero = DynamicQuantizeLinear (x)
        y = DequantizeLinear (q, scale, zero)
    }"""


_EXAMPLES = (
    Example(
        "both signs",
        _TEXT,
        feeds={"x": np.array([[0.5, -1.25, 3.0, 2.2, -0.0], [0.1, 7.5, -2.0, 0.0, 1]], np.float32)},
    ),
    Example("negative only", _TEXT, feeds={"x": np.linspace(-9, -3, 10, dtype=np.float32).reshape(2, 5)}),
    Example("zeros", _TEXT, feeds={"x": np.zeros((2, 5), np.float32)}),
)


EXAMPLES = {"dynamic-quantize": _EXAMPLES}
