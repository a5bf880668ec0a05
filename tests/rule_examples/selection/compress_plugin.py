"""Models that the rule compress-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_SOME = np.array([True, False, False, True])


def _example(name: str, dtype: str) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g ({dtype}[4, 3] x, bool[4] c) => ({dtype}[n, 3] y) {{ y = Compress <axis = 0> (x, c) }}""",
        feeds={"c": _SOME},
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "compress-plugin": (
        Example(
            "all elements, a computed condition",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[3, 5] x, float[3, 5] z) => (float[n] y) {
                positive = Greater (x, z)
                flat = Constant <value = int64[1] {-1}> ()
                c = Reshape (positive, flat)
                y = Compress (x, c)
            }""",
        ),
        Example(
            "last axis, then more",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (float16[2, 3, 4] x, bool[4] c, float16[2, 3, 1] z) => (float16[2, 3, n] y) {
                some = Compress <axis = -1> (x, c)
                y = Mul (some, z)
            }""",
            feeds={"c": _SOME},
        ),
        _example("bool", "bool"),
        _example("int8, none", "int8"),
        _example("uint8", "uint8"),
        _example("int64", "int64"),
    ),
}
