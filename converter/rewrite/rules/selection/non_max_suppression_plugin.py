"""NonMaxSuppression of a number of boxes that only a run tells, by our plugin.

TensorRT-RTX has a layer for it and no kernel for the layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import read_by
from trtsmith.converter.rewrite.engine.plugin_call import plugin_call
from trtsmith.converter.rewrite.engine.statement_writer import statements
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
    ports = ["most", "overlap", *(["floor"] if node.input(4) else [])]
    body = f"""
        {"most = Reshape (x2, one)" if node.input(2) else "most = Identity (none)"}
        {"overlap = Reshape (x3, one)" if node.input(3) else "overlap = Identity (any)"}
        {"floor = Reshape (x4, one)" if node.input(4) else ""}
        {plugin_call("y0, count", PLUGIN, ", ".join(["x0", "x1", *ports]), fields)}
    """
    constants = {"one": np.array([1]), "none": np.array([0]), "any": np.zeros(1, np.float32)}
    return Replacement(statements(node, body, **read_by(body, constants)), f"plugin {PLUGIN.name}")


NON_MAX_SUPPRESSION_PLUGIN = NodeRule(
    "non-max-suppression-plugin",
    "NonMaxSuppression by a plugin",
    ("NonMaxSuppression",),
    _rewrite,
    flavour="tensorrt_rtx",
)
