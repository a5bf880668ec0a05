"""Models that the rule half-gates takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_GATE = """<ir_version: 8, opset_import: ["" : 17]>
g (float16[N, 4, h, w] x, float16[4, 1, 3, 3] k, float16[4, 4, 1, 1] v) => (float16[N, 4, h, w] y) {
    a = Conv <pads = [1, 1, 1, 1], group = 4> (x, k)
    p = GlobalAveragePool (a)
    q = Conv (p, v)
    g = Sigmoid (q)
    y = Mul (PLACES)
}"""


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "half-gates": tuple(
        Example(
            f"the gate {place}",
            _GATE.replace("PLACES", factors),
            feeds={"x": np.random.default_rng(7).standard_normal((2, 4, 6, 5)).astype(np.float16)},
            rtol=2e-3,
            atol=1e-3,
        )
        for place, factors in (("last", "a, g"), ("first", "g, a"))
    ),
}
