"""Models that the rule unique-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(name: str, dtype: str, attributes: str, values: np.ndarray, shape: str) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g ({dtype}[{", ".join(map(str, values.shape))}] x) => (
            {dtype}[{shape}] y, int64[n] at, int64[m] inverse, int64[n] counts
        ) {{
            y, at, inverse, counts = Unique <{attributes}> (x)
        }}""",
        feeds={"x": values},
        reference=dtype == "bool",  # for which onnxruntime has no Unique
    )


_VALUES = np.array([[2, -1, 5, 2], [5, 5, 0, -7], [3, 2, 0, 9], [2, -1, 5, 2], [5, 5, 0, -7]])


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "unique-plugin": (
        _example("all elements", "float", "sorted = 1", _VALUES.astype(np.float32) / 4, "n"),
        _example("in the order given", "int64", "sorted = 0", _VALUES, "n"),
        _example("rows", "float", "axis = 0", _VALUES.astype(np.float32), "n, 4"),
        _example("columns in the order given", "int64", "axis = -1, sorted = 0", _VALUES, "5, n"),
        _example("int8", "int8", "axis = 0", _VALUES.astype(np.int8), "n, 4"),
        _example("double", "double", "axis = 0", _VALUES / 4, "n, 4"),
        _example("bool", "bool", "axis = 0", _VALUES > 2, "n, 4"),
        Example(
            "values alone, read on",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int64[2, 3] x, float[10, 4] table) => (float[n, 4] y) {
                kinds = Unique (x)
                y = Gather <axis = 0> (table, kinds)
            }""",
            feeds={"x": np.array([[7, 1, 7], [0, 1, 9]])},
        ),
    ),
}
