"""Models that the rule compress takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "compress": (
        Example(
            "constant",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (float[3, 4, 2] x) => (float[3, 2, 2] y, float[2] z)
            <bool[4] some = {0, 1, 0, 1}, bool[9] few = {0, 0, 1, 0, 0, 0, 0, 1, 0}> {
                y = Compress <axis = -2> (x, some)
                z = Compress (x, few)
            }""",
        ),
        Example(
            "declared",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[3, 5] x, bool[4] c, bool[15] d) => (float[3, 2] y, float[6] z) {
                y = Compress <axis = 1> (x, c)
                z = Compress (x, d)
            }""",
            feeds={"c": np.array([True, False, False, True]), "d": np.arange(15) % 5 > 2},
        ),
    ),
}
