"""Models that the rule layer-statistics takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

EXAMPLES = {
    "layer-statistics": (
        Example(
            "constant rows",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float[2, 3, 8] x, float[8] scale, float[8] shift)
            => (float[2, 3, 8] y, float[2, 3, 1] mean, float[2, 3, 1] inverse) {
                y, mean, inverse = LayerNormalization (x, scale, shift)
            }""",
            feeds={"x": np.repeat(np.array([[[-17.3], [0.1], [3]]], np.float32), 8, 2).repeat(2, 0)},
        ),
        Example(
            "several axes",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float[n, 3, 4] x, float[3, 4] scale) => (float[n, 1, 1] mean) {
                y, mean = LayerNormalization <axis = 1, epsilon = 0.1> (x, scale)
            }""",
            feeds={"x": np.random.default_rng(1).normal(size=(5, 3, 4)).astype(np.float32)},
        ),
        Example(
            "half",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float16[2, 8] x, float16[8] scale) => (float16[2, 8] y, float[2, 1] inverse) {
                y, , inverse = LayerNormalization <axis = -1> (x, scale)
            }""",
            rtol=2e-3,
            atol=2e-3,
        ),
    )
}
