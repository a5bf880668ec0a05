"""Models that the rule large-top-k-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _values(*shape: int) -> np.ndarray:
    """With many equal elements."""
    return np.random.default_rng(1).integers(-2000, 2000, shape).astype(np.float32)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "large-top-k-plugin": (
        Example(
            "sorted",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[2, 9000] x) => (float[2, 8000] y, int64[2, 8000] i) <int64[1] k = {8000}> {
                y, i = TopK (x, k)
            }""",
            feeds={"x": _values(2, 9000)},
        ),
        Example(
            "columns of bytes, the smallest",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int8[N, 2] x) => (int8[3900, 2] y) <int64[1] k = {3900}> {
                y, i = TopK <axis = 0, largest = 0> (x, k)
            }""",
            feeds={"x": _values(4500, 2).astype(np.int8)},
        ),
        Example(
            "all",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (int64[4000, 2] x) => (int64[4000, 2] i) <int64[1] k = {4000}> {
                y, i = TopK <axis = 0, largest = 0> (x, k)
            }""",
            feeds={"x": _values(4000, 2).astype(np.int64)},
        ),
    ),
}
