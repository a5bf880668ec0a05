"""Models that the rule scatter-nd takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import (
    REDUCTIONS,
)


def _example(reduction: str, dtype: str, opset: int = 18) -> Example:
    return Example(
        f"{reduction}-{dtype}",
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g ({dtype}[3, 4, 2] x, int64[2, 3, 2] i, {dtype}[2, 3, 2] u) => ({dtype}[3, 4, 2] y) {{
            y = ScatterND <reduction = "{reduction}"> (x, i, u)
        }}""",
        feeds={"i": np.array([[[0, 1], [2, 3], [0, 1]], [[0, 3], [0, 1], [2, -1]]])},
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "scatter-nd": (
        *(_example(reduction, "float") for reduction in REDUCTIONS),
        _example("add", "int64"),
        _example("max", "int32"),
        _example("mul", "float", 16),
        Example(
            "slices",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[4, 3, 2] x, int64[3, 1] i, float[3, 3, 2] u) => (float[4, 3, 2] y) {
                y = ScatterND <reduction = "mul"> (x, i, u)
            }""",
            feeds={"i": np.array([[2], [0], [2]])},
        ),
        Example(
            "in parts",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[1, 7, 64] x, int64[2500, 2] i, float[2500, 64] u) => (float[1, 7, 64] y) {
                y = ScatterND <reduction = "add"> (x, i, u)
            }""",
            feeds={"i": np.stack([np.zeros(2500, int), np.arange(2500) ** 2 % 11 % 7], axis=1)},
            rtol=1e-4,
            atol=1e-3,
        ),
        Example(
            "more tuples than slices, of sizes that are decided when it runs",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[n, 3, 2] x, int64[e, 2] i, float[e, 2] u) => (float[n, 3, 2] y) {
                y = ScatterND <reduction = "add"> (x, i, u)
            }""",
            feeds={
                "x": np.arange(12, dtype=np.float32).reshape(2, 3, 2),
                "i": np.array([[0, 1], [1, 2], [0, 1], [-1, 0], [1, 2], [0, -3], [1, 1], [0, 1], [1, 2]]),
                "u": np.arange(1, 19, dtype=np.float32).reshape(9, 2),
            },
        ),
        Example(
            "constant",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[4, 3] x, float[3, 3] u) => (float[4, 3] y) <int64[3, 1] i = {2, 0, -1}> {
                y = ScatterND <reduction = "min"> (x, i, u)
            }""",
        ),
    ),
}
