"""Models that the rule plugin-columns takes: a graph network's messages and their norms, joined for a layer."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(5)

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "plugin-columns": (
        Example(
            "messages and their norms",
            """<ir_version: 9, opset_import: ["" : 17]>
            g (float[40, 32] x, float[40, 32, 3] v, int64[50] i, float[50, 32] u, float[50, 32, 3] p, float[24, 64] k,
               float[24] b) => (float[40, 24] y)
            <int64[1] one = {1}, int64[2] two = {1, 2}> {
                column = Unsqueeze (i, one)
                sizes = Shape (u)
                wide = Expand (column, sizes)
                messages = ScatterElements <axis = 0, reduction = "add"> (x, wide, u)
                columns = Unsqueeze (i, two)
                volume = Shape (p)
                all = Expand (columns, volume)
                vectors = ScatterElements <axis = 0, reduction = "add"> (v, all, p)
                norms = ReduceL2 <axes = [-1], keepdims = 0> (vectors)
                both = Concat <axis = -1> (messages, norms)
                z = Gemm <transB = 1> (both, k, b)
                g = Sigmoid (z)
                y = Mul (z, g)
            }""",
            feeds={"i": _RNG.integers(0, 40, 50)},
            atol=0.2,  # of outputs up to 337: TF32 changes 0.11, and the fault some tens
        ),
    )
}
