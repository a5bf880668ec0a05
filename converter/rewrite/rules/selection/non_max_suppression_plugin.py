"""NonMaxSuppression of a number of boxes that only a run tells, by our plugin.

TensorRT-RTX has a layer for it and no kernel for the layer.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import write_plugin
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.ops.box_selection import BOX_SELECTION, NO_LIMIT


def _rewrite(node: NodeView) -> Replacement | None:
    if node.opset < 10 or {node.dtype(0), node.dtype(1)} != {"float32"}:
        return None
    most = node.constant(2)
    bound = (
        0
        if not node.input(2)
        else NO_LIMIT
        if most is None
        else min(max(int(most.reshape(-1)[0]), 0), NO_LIMIT)
    )
    fields = {"center_point_box": int(node.attributes.get("center_point_box", 0)), "most": bound}
    w = Writer(node)
    limits = [
        w.reshape("x2", [1]) if node.input(2) else w.do("Identity", w.ints(0)),
        w.reshape("x3", [1]) if node.input(3) else w.do("Identity", np.zeros(1, np.float32)),
        *([w.reshape("x4", [1])] if node.input(4) else []),
    ]
    write_plugin(w, ["y0", "count"], BOX_SELECTION, ["x0", "x1", *limits], fields)
    return Replacement(w.nodes(), f"plugin {BOX_SELECTION.name}")


_RNG = np.random.default_rng(4)
_CENTRES = _RNG.uniform(0, 4, (2, 30, 2))
_BOXES = np.concatenate([_CENTRES, _CENTRES + _RNG.uniform(0.5, 2, (2, 30, 2))], 2).astype(np.float32)
_SCORES = _RNG.random((2, 3, 30)).astype(np.float32)
_FEEDS = {"boxes": _BOXES, "scores": _SCORES}

NON_MAX_SUPPRESSION_PLUGIN = NodeRule(
    "non-max-suppression-plugin",
    "NonMaxSuppression by a plugin",
    ("NonMaxSuppression",),
    _rewrite,
    (
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
)
