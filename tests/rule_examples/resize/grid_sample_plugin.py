"""Models that the rule grid-sample-plugin takes: volumes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_GRID = np.random.default_rng(2).uniform(-1.4, 1.4, (2, 3, 4, 5, 3)).astype(np.float32)
_OPEN = "(float[N, C, D, H, W] x, float[N, d, h, w, 3] grid) => (float[N, C, d, h, w] y)"
_SIGNATURE = "(float[2, 3, 4, 5, 6] x, float[2, 3, 4, 5, 3] grid) => (float[2, 3, 3, 4, 5] y)"
_X = np.random.default_rng(3).normal(size=(2, 3, 4, 5, 6)).astype(np.float32)


def _example(name: str, attributes: str, signature: str = _SIGNATURE, opset: int = 20) -> Example:
    return Example(
        name,
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g {signature} {{ y = GridSample <{attributes}> (x, grid) }}""",
        feeds={"x": _X, "grid": _GRID},
        rtol=1e-4,
        atol=1e-5,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "grid-sample-plugin": (
        _example("defaults", "align_corners = 0"),
        _example("reflected, aligned", 'mode = "linear", padding_mode = "reflection", align_corners = 1'),
        _example(
            "nearest at the border, unknown sizes", 'mode = "nearest", padding_mode = "border"', _OPEN, 22
        ),
        Example(
            "a narrower input",
            """<ir_version: 9, opset_import: ["" : 20]>
            g (float16[2, 3, 4, 5, 6] x, float[2, 3, 4, 5, 3] grid) => (float16[2, 3, 3, 4, 5] y) {
                y = GridSample <align_corners = 1> (x, grid)
            }""",
            feeds={"x": _X.astype(np.float16), "grid": _GRID},
            reference=True,
            rtol=2e-3,
            atol=2e-3,
        ),
    ),
}

REFUSED: dict[str, tuple[str, ...]] = {
    "grid-sample-plugin": (
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g {_SIGNATURE} {{ y = GridSample <mode = "cubic"> (x, grid) }}""",
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g {_SIGNATURE} {{ y = GridSample <padding_mode = "wrap"> (x, grid) }}""",
    ),
}
