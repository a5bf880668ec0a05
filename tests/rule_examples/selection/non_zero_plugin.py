"""Models that the rule non-zero-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_VALUES = (np.arange(24).reshape(3, 2, 4) % 5 == 3) * -0.5


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "non-zero-plugin": (
        Example(
            "then gathered",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[3, 2, 4] x) => (int64[3, n] y, float[n] z) {
                y = NonZero (x)
                rows = Transpose <perm = [1, 0]> (y)
                z = GatherND (x, rows)
            }""",
            feeds={"x": _VALUES.astype(np.float32)},
        ),
        Example(
            "bool, its size read",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (bool[24] x, float[24, 3] table) => (int64[2] sizes, float[n, 3] y) {
                found = NonZero (x)
                at = Squeeze <axes = [0]> (found)
                sizes = Shape (found)
                y = Gather (table, at)
            }""",
            feeds={"x": _VALUES.reshape(-1) != 0},
        ),
        Example(
            "uint8, nothing found",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (uint8[3, 4] x) => (int64[2, n] y) { y = NonZero (x) }""",
            feeds={"x": np.zeros((3, 4), np.uint8)},
        ),
    ),
}

REFUSED = {
    "non-zero-plugin": (
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float x) => (int64[m, n] y) { y = NonZero (x) }""",
    ),
}
