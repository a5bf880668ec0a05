"""Models that the rule branch-ranks takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(name: str, taken: bool) -> Example:
    return Example(
        name,
        """<ir_version: 9, opset_import: ["" : 17]>
        g (bool c, float[1] x, float[1, 1] w) => (float[1, 1] z, float[2, 3] v) {
            two = Constant <value = float {2}> ()  grid = Constant <value = float[2, 3] {1, 2, 3, 4, 5, 6}> ()
            y, u = If (c) <
                then_branch = a () => (float p, float[2, 3] s) { p = Identity (two)  s = Neg (grid) },
                else_branch = b () => (float q, float[2, 3] t) { q = Mul (x, two)  t = Mul (grid, x) }
            >
            z = Add (y, w)
            v = Abs (u)
        }""",
        feeds={"c": np.array(taken)},
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "branch-ranks": (
        _example("the branch without dimensions", True),
        _example("the branch of one dimension", False),
    ),
}
