"""Models that the rule non-max-suppression-plugin takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(4)


_CENTRES = _RNG.uniform(0, 4, (2, 30, 2))


_BOXES = np.concatenate([_CENTRES, _CENTRES + _RNG.uniform(0.5, 2, (2, 30, 2))], 2).astype(np.float32)


_SCORES = _RNG.random((2, 3, 30)).astype(np.float32)


_FEEDS = {"boxes": _BOXES, "scores": _SCORES}


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "non-max-suppression-plugin": (
        Example(
            "then gathered",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[2, 30, 4] boxes, float[2, 3, 30] scores) => (int64[n, 3] y, float[n] kept)
            <int64[1] most = {4}, float[1] overlap = {0.3}, float[1] floor = {0.2}> {
                y = NonMaxSuppression (boxes, scores, most, overlap, floor)
                kept = GatherND (scores, y)
            }""",
            feeds=_FEEDS,
        ),
        Example(
            "thresholds at run time, centres",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (float[2, 30, 4] boxes, float[2, 3, 30] scores, int64[1] most, float[1] overlap) => (int64[n, 3] y) {
                y = NonMaxSuppression <center_point_box = 1> (boxes, scores, most, overlap)
            }""",
            feeds=_FEEDS | {"most": np.array([7]), "overlap": np.array([0.25], np.float32)},
        ),
        Example(
            "many of many",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[2, 30, 4] boxes, float[2, 3, 30] scores) => (int64[n, 3] y) <int64 most = {100000}> {
                y = NonMaxSuppression (boxes, scores, most)
            }""",
            feeds=_FEEDS,
        ),
        Example(
            "no number given: none",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[2, 30, 4] boxes, float[2, 3, 30] scores) => (int64[n, 3] y) {
                y = NonMaxSuppression (boxes, scores)
            }""",
            feeds=_FEEDS,
        ),
    ),
}
