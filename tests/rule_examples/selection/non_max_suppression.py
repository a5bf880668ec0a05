"""Models that the rule non-max-suppression takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_BOXES = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 1.1, 0, 0.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [3, 3, 3, 4]]],
    np.float32,
)


_SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.8, 0.8, 0.2, 0.7, 0.31]]], np.float32)


_EXAMPLES = (
    Example(
        "two classes, flipped and empty boxes",
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[1, 6, 4] boxes, float[1, 2, 6] scores) => (int64[5, 3] y)
        <int64[1] most = {3}, float[1] overlap = {0.5}, float[1] floor = {0.3}> {
            y = NonMaxSuppression (boxes, scores, most, overlap, floor)
        }""",
        feeds={"boxes": _BOXES, "scores": _SCORES},
    ),
    Example(
        "centres, two images",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6, 4] boxes, float[2, 1, 6] scores) => (int64[4, 3] y)
        <int64[1] most = {2}, float[1] overlap = {0.4}> {
            y = NonMaxSuppression <center_point_box = 1> (boxes, scores, most, overlap)
        }""",
        feeds={
            "boxes": np.abs(np.concatenate([_BOXES, _BOXES[:, ::-1]])) + 0.5,
            "scores": np.concatenate([_SCORES[:, :1], _SCORES[:, 1:]]),
        },
    ),
)


EXAMPLES = {"non-max-suppression": _EXAMPLES}
