"""Models that the rules scatter-elements and bool-scatter take."""

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


def _of_booleans(reduction: str, opset: int) -> Example:
    """No data is true where a sum is taken, and all of it where a product is: what the updates do is seen."""
    start = np.full((3, 4), reduction in ("mul", "min"))
    return Example(
        f"{reduction}-{opset}",
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g (bool[3, 4] x, int64[2, 4] i, bool[2, 4] u, int64[3, 1] r, bool[3, 4] v) => (bool[3, 4] y, bool[3, 4] z) {{
            y = ScatterElements <axis = 0, reduction = "{reduction}"> (x, i, u)
            z = ScatterND <reduction = "{reduction}"> (x, r, v)
        }}""",
        feeds={
            "x": start,
            "i": np.array([[0, 1, -1, 1], [0, 1, 0, 2]]),
            "u": np.array([[1, 1, 0, 0], [1, 0, 1, 0]], bool),
            "r": np.array([[2], [-1], [0]]),
            "v": np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0]], bool),
        },
        reference=opset == 18,  # onnxruntime has no ScatterND of these
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "bool-scatter": (
        _of_booleans("add", 16),
        _of_booleans("mul", 16),
        _of_booleans("max", 18),
        _of_booleans("min", 18),
    ),
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
