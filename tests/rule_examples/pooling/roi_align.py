"""Models that the rule roi-align-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_BOXES = np.array([[-9, -3, 12, 11], [1, 2, 9, 5.5], [4, 4, 4.2, 4.1], [7, 5, 30, 20]], np.float32)


_OF = np.array([1, 0, 1, 0])


_EXAMPLES = (
    Example(
        "mean, beyond the edges",
        """<ir_version: 8, opset_import: ["" : 16]>
        g (float[2, 3, 8, 9] x, float[4, 4] boxes, int64[4] of) => (float[4, 3, 3, 4] y) {
            y = RoiAlign <output_height = 3, output_width = 4, sampling_ratio = 2, spatial_scale = 0.75> (x, boxes, of)
        }""",
        feeds={"boxes": _BOXES, "of": _OF},
    ),
    Example(
        "maximum, opset 10",
        """<ir_version: 8, opset_import: ["" : 10]>
        g (float[2, 3, 8, 9] x, float[4, 4] boxes, int64[4] of) => (float[4, 3, 2, 2] y) {
            y = RoiAlign <mode = "max", output_height = 2, output_width = 2, sampling_ratio = 3> (x, boxes, of)
        }""",
        feeds={"boxes": _BOXES, "of": _OF},
    ),
    Example(
        "half pixels, as many samples as a box has pixels",
        """<ir_version: 8, opset_import: ["" : 16]>
        g (float[2, 3, 8, 9] x, float[n, 4] boxes, int64[n] of) => (float[n, 3, 2, 2] y) {
            y = RoiAlign <output_height = 2, output_width = 2> (x, boxes, of)
        }""",
        feeds={"boxes": _BOXES, "of": _OF},
    ),
)


EXAMPLES = {"roi-align-plugin": _EXAMPLES}
