"""Replaces NonMaxSuppression of a number of boxes that only a run tells with our plugin.

TensorRT-RTX has a layer for it and no kernel for the layer.
"""

from __future__ import annotations

from typing import Any

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("NonMaxSuppression")
NO_LIMIT: Any = PLUGIN.field("most").default


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
        w.Reshape(w.x[2], shape=[1]) if node.input(2) else [0],
        w.Reshape(w.x[3], shape=[1]) if node.input(3) else [0.0],
        *([w.Reshape(w.x[4], shape=[1])] if node.input(4) else []),
    ]
    boxes, _ = plugin_outputs(w, PLUGIN, [*w.x[:2], *limits], fields)
    return Replacement(w.finish(boxes), f"plugin {PLUGIN.name}")


NON_MAX_SUPPRESSION_PLUGIN = NodeRule(
    "non-max-suppression-plugin",
    "NonMaxSuppression by a plugin",
    ("NonMaxSuppression",),
    _rewrite,
    flavour="tensorrt_rtx",
)
