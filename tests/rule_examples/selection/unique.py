"""Models that the rule unique takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(dtype: str, attributes: str, values: np.ndarray) -> Example:
    count = len(np.unique(values))
    size = ", ".join(map(str, values.shape))
    return Example(
        f"{dtype}-{attributes}".replace(" ", ""),
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g ({dtype}[{size}] x) => (
            {dtype}[{count}] y, int64[{count}] at, int64[{values.size}] inverse, int64[{count}] counts
        ) {{
            y, at, inverse, counts = Unique <{attributes}> (x)
        }}""",
        feeds={"x": values},
    )


_VALUES = np.array([[2, -1, 5, 2], [5, 5, 0, -7], [3, 2, 0, 9]])


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "unique": (
        _example("float", "sorted = 1", _VALUES.astype(np.float32) / 4),
        _example("float", "sorted = 0", _VALUES.astype(np.float32)),
        _example("int64", "sorted = 1", _VALUES),
        Example(
            "one",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int64[1] x) => (int64[1] y, int64[1] counts) {
                a, at, inverse, counts = Unique <axis = 0> (x)
                y = Neg (a)
            }""",
        ),
    ),
}
