"""Models that the rule tensor-scatter takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(name: str, cache: str, update: str, attributes: str, indices: list[int] | None) -> Example:
    given = "" if indices is None else f", int64[{len(indices)}] at"
    return Example(
        name,
        f"""<ir_version: 10, opset_import: ["" : 24]>
        g (float{cache} x, float{update} u{given}) => (float{cache} y) {{
            y = TensorScatter <{attributes}> (x, u{"" if indices is None else ", at"})
        }}""",
        feeds=None if indices is None else {"at": np.array(indices)},
        reference=True,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "tensor-scatter": (
        _example("3d", "[3, 4, 5]", "[3, 2, 5]", "axis = -2", [1, 2, 0]),
        _example("4d, linear", "[2, 3, 4, 5]", "[2, 3, 2, 5]", "axis = 2", [1, 2]),
        _example("circular", "[2, 3, 4, 5]", "[2, 3, 2, 5]", 'mode = "circular"', [3, 6]),
        _example("axis", "[2, 4, 3, 5]", "[2, 2, 3, 5]", "axis = 1", [2, 0]),
        _example("prefill", "[2, 3, 4, 5]", "[2, 3, 2, 5]", "axis = 2", None),
    ),
}
