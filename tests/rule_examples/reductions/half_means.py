"""Models that the rule half-means takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _half(*shape: int, spread: float = 3) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-spread, spread, shape).astype(np.float16)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "half-means": (
        Example(
            "mean",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float16[4, 6] a, float16[6] b, float16[4, 1] c) => (float16[4, 6] y) { y = Mean (a, b, c) }""",
            feeds={"a": _half(4, 6), "b": _half(6), "c": _half(4, 1)},
            rtol=2e-3,
            atol=1e-3,
        ),
        Example(
            "mean of one",
            '<ir_version: 8, opset_import: ["" : 17]> g (float16[4, 6] a) => (float16[4, 6] y) { y = Mean (a) }',
            feeds={"a": _half(4, 6)},
            rtol=2e-3,
        ),
        Example(
            "unit vectors",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float16[60, 4] x) => (float16[60, 4] y) { y = LpNormalization <axis = 0> (x) }""",
            feeds={"x": _half(60, 4, spread=300)},
            rtol=4e-3,
            atol=1e-3,
        ),
    ),
}
