"""Models that the rule contrib-crop takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_BOXES = np.array(
    [
        [0.0, 0.0, 1.0, 1.0],
        [0.2, 0.7, 0.9, 0.1],
        [-0.3, 0.25, 0.5, 1.2],
        [0.5, 0.5, 0.5, 0.5],
        [0.0, 0.15, 1.0, 1.0],
    ],
    np.float32,
)
"""The last point of the last box is at the border, and a rounding decides where, with three points in seven columns."""


def _example(name: str, size: tuple[int, int], attributes: str, opset: int = 17) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[2, 3, 5, 7] x, float[5, 4] boxes, int32[5] ids) => (float[5, 3, {size[0]}, {size[1]}] y)
        <int32[2] size = {{{size[0]}, {size[1]}}}> {{
            y = com.microsoft.CropAndResize {attributes} (x, boxes, ids, size)
        }}""",
        feeds={"boxes": _BOXES, "ids": np.array([1, 0, 1, 0, 1], np.int32)},
        rtol=1e-4,
        atol=1e-5,
    )


_EXAMPLES = (
    _example("boxes", (4, 3), "<extrapolation_value = -2.5>"),
    _example("middle of a box", (1, 2), "", 20),
    _example("nearest", (3, 4), '<mode = "nearest">', 16),
)


EXAMPLES = {"contrib-crop": _EXAMPLES}
