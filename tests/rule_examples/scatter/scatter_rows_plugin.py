"""Models that the rule scatter-rows-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

INDEX = np.arange(7) * 5 % 11 % 3 - 1
"""Of three rows, also counted from the end."""


def _expanded(reduction: str, dtype: str = "float", reference: bool = False) -> Example:
    """As PyTorch exports scatter_reduce of `index.unsqueeze(-1).expand_as(source)`."""
    return Example(
        f"{reduction}-{dtype}, expanded",
        f"""<ir_version: 9, opset_import: ["" : 18]>
        g ({dtype}[3, 4] x, int64[7] i, {dtype}[7, 4] u) => ({dtype}[3, 4] y)
        <int64[1] axis = {{1}}> {{
            column = Unsqueeze (i, axis)
            sizes = Shape (u)
            wide = Expand (column, sizes)
            y = ScatterElements <axis = -2, reduction = "{reduction}"> (x, wide, u)
        }}""",
        feeds={"i": INDEX},
        reference=reference,
    )


def _slices(reduction: str, name: str, data: str, indices: np.ndarray, updates: str) -> Example:
    return Example(
        f"{reduction}, {name}",
        f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float{data} x, int64[{",".join(map(str, indices.shape))}] i, float{updates} u) => (float{data} y) {{
            y = ScatterND <reduction = "{reduction}"> (x, i, u)
        }}""",
        feeds={"i": indices},
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "scatter-rows-plugin": (
        _expanded("add"),
        _expanded("max"),
        _expanded("min"),
        _expanded("max", "float16", reference=True),
        Example(
            "sizes of the run",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[n, 5] x, int64[2, e] edges, float[e, 5] u) => (float[n, 5] y)
            <int64 source = {0}, int64[2] column = {-1, 1}> {
                i = Gather <axis = 0> (edges, source)
                tall = Reshape (i, column)
                sizes = Shape (u)
                wide = Expand (tall, sizes)
                zero = Sub (x, x)
                y = ScatterElements <reduction = "add"> (zero, wide, u)
            }""",
            feeds={
                "x": np.arange(20, dtype=np.float32).reshape(4, 5),
                "edges": np.stack([INDEX, INDEX[::-1]]),
                "u": np.linspace(-1, 2, 35, dtype=np.float32).reshape(7, 5),
            },
        ),
        Example(
            "one dimension, int32",
            """<ir_version: 9, opset_import: ["" : 16]>
            g (float[5] x, int32[4] i, float[4] u) => (float[5] y) {
                y = ScatterElements <reduction = "add"> (x, i, u)
            }""",
            feeds={
                "i": np.array([0, 3, 3, -5], np.int32),
                "u": np.array([np.inf, 1, 1, 2], np.float32),
            },
        ),
        Example(
            "another axis, tiled",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[2, 3, 4] x, int32[7] i, float[2, 7, 4] u) => (float[2, 3, 4] y)
            <int64[2] axes = {0, -1}, int64[3] repeats = {2, 1, 4}> {
                column = Unsqueeze (i, axes)
                all = Tile (column, repeats)
                wide = Cast <to = 7> (all)
                y = ScatterElements <axis = 1, reduction = "max"> (x, wide, u)
            }""",
            feeds={"i": INDEX.astype(np.int32)},
        ),
        Example(
            "one index for all rows",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[n, 2] x, int64[1, 1] i, float[e, 2] u) => (float[n, 2] y) {
                sizes = Shape (u)
                wide = Expand (i, sizes)
                y = ScatterElements <reduction = "add"> (x, wide, u)
            }""",
            feeds={
                "x": np.arange(8, dtype=np.float32).reshape(4, 2),
                "i": np.array([[2]]),
                "u": np.ones((3, 2), np.float32),
            },
        ),
        Example(
            "constant of equal columns",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[n, 2] x, float[3, 2] u) => (float[n, 2] y) <int64[3, 2] i = {1, 1, -1, -1, 1, 1}> {
                y = ScatterElements <axis = 0, reduction = "add"> (x, i, u)
            }""",
            feeds={"x": np.arange(8, dtype=np.float32).reshape(4, 2)},
        ),
        Example(
            "not finite",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[3, 2] x, int64[4, 1] i, float[4, 2] u) => (float[3, 2] y) {
                y = ScatterND <reduction = "add"> (x, i, u)
            }""",
            feeds={
                "i": np.array([[0], [2], [2], [0]]),
                "u": np.array([[np.inf, 1], [np.nan, 2], [1, 3], [-np.inf, 4]], np.float32),
            },
        ),
        Example(
            "no number in a row that stays",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[3, 2] x, int64[3, 1] i, float[3, 2] u) => (float[3, 2] y) {
                y = ScatterND <reduction = "max"> (x, i, u)
            }""",
            feeds={
                "x": np.array([[1, -np.inf], [np.nan, 2], [-1, -2]], np.float32),
                "i": np.array([[0], [2], [0]]),
                "u": np.array([[0, -np.inf], [np.inf, -3], [-1, -5]], np.float32),
            },
        ),
        _slices("add", "slices", "[4, 3, 2]", np.array([[2], [0], [2]]), "[3, 3, 2]"),
        _slices(
            "max", "slices of several batches", "[4, 3]", np.array([[[2], [0]], [[2], [-1]]]), "[2, 2, 3]"
        ),
        _slices("min", "numbers", "[4]", np.array([[2], [0], [2]]), "[3]"),
        Example(
            "many slices",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[7, 64] x, int64[2500, 1] i, float[2500, 64] u) => (float[7, 64] y) {
                y = ScatterND <reduction = "add"> (x, i, u)
            }""",
            feeds={"i": (np.arange(2500) ** 2 % 11 % 7).reshape(2500, 1)},
            rtol=1e-4,
            atol=1e-3,
        ),
    ),
}
