"""Models that the rule scatter-elements takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import REDUCTIONS


def _example(reduction: str, dtype: str, opset: int = 18, reference: bool = False) -> Example:
    return Example(
        f"{reduction}-{dtype}",
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g ({dtype}[3, 6, 2] x, int64[2, 5, 2] i, {dtype}[2, 5, 2] u) => ({dtype}[3, 6, 2] y) {{
            y = ScatterElements <axis = 1, reduction = "{reduction}"> (x, i, u)
        }}""",
        feeds={"i": np.arange(20).reshape(2, 5, 2) * 7 % 12 // 3 - 2},
        reference=reference,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "scatter-elements": (
        *(_example(reduction, "float") for reduction in REDUCTIONS),
        *(_example(reduction, "int64") for reduction in ("add", "max", "min")),
        _example("mul", "int32", 16),
        _example("max", "float16", reference=True),
        Example(
            "constant",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[2, 5] x, float[2, 3] u) => (float[2, 5] y)
            <int64[2, 3] i = {0, -1, 2, 1, 4, -3}> {
                y = ScatterElements <axis = -1, reduction = "add"> (x, i, u)
            }""",
        ),
        Example(
            "many to few",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[2, 3, 2] x, int64[2, 7, 2] i, float[2, 7, 2] u) => (float[2, 3, 2] y, float[2, 3, 2] z) {
                y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)
                none = Sub (u, u)
                z = ScatterElements <axis = 1> (x, i, none)
            }""",
            feeds={"i": np.arange(28).reshape(2, 7, 2) * 5 % 11 % 3 - 1},
        ),
        Example(
            "many to few, sizes of the run",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[n, 2] x, int64[e, 2] i, float[e, 2] u) => (float[n, 2] y) {
                y = ScatterElements <reduction = "add"> (x, i, u)
            }""",
            feeds={
                "x": np.arange(6, dtype=np.float32).reshape(3, 2),
                "i": np.arange(14).reshape(7, 2) * 5 % 11 % 3 - 1,
                "u": np.linspace(-1, 2, 14, dtype=np.float32).reshape(7, 2),
            },
        ),
        Example(
            "in parts",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[9, 3] x, int64[8192, 3] i, float[8192, 3] u) => (float[9, 3] y) {
                y = ScatterElements <reduction = "max"> (x, i, u)
            }""",
            feeds={"i": np.arange(3 * 8192).reshape(8192, 3) ** 2 % 13 % 9},
        ),
        Example(
            "not finite",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[5, 2] x, int32[4, 2] i, float[4, 2] u) => (float[5, 2] y) {
                y = ScatterElements <reduction = "add"> (x, i, u)
            }""",
            feeds={
                "i": np.array([[0, 1], [3, 3], [3, 2], [-5, 3]], np.int32),
                "u": np.array([[np.inf, 1], [np.nan, 2], [1, 3], [2, -np.inf]], np.float32),
            },
        ),
    ),
}
