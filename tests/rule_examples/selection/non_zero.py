"""Models that the rule non-zero takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "non-zero": (
        Example(
            "declared",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[3, 2, 4] x) => (int64[3, 5] y) { y = NonZero (x) }""",
            feeds={"x": (np.arange(24).reshape(3, 2, 4) % 5 == 3).astype(np.float32) * -0.5},
        ),
        Example(
            "empty",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int64[5, 0] x) => (int64[2, 0] y) { y = NonZero (x) }""",
        ),
        Example(
            "constant",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int64[2, 3] x) => (int64[2, 3] y) <float[2, 3] c = {1, 0, 2, 0, 0, -1}> {
                n = NonZero (c)
                y = Mul (n, x)
            }""",
        ),
    ),
}
