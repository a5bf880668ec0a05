"""Models that the rule dynamic-eye takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "dynamic-eye": tuple(
        Example(
            f"k{k}",
            f"""<ir_version: 8, opset_import: ["" : 13]>
            g (float[5, 6] x, int64[2] size) => (float y) {{
                cut = Slice (x, start, size)
                eye = EyeLike <k = {k}> (cut)
                picked = Mul (eye, cut)
                sums = ReduceSum <keepdims = 0> (picked)
                y = Identity (sums)
            }}""".replace("(float y)", "(float y) <int64[2] start = {0, 0}>"),
            feeds={"size": np.array([3, 4])},
            builds=False,
            why="the test gives no profile for sizes fed at run time",
        )
        for k in (0, 1, -2)
    ),
}
