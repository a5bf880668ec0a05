"""Compress by a condition that only a run tells, by our plugin: no TensorRT has a layer for it."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import as_element, from_element, is_element, plugin_call
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("Compress")


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    axis = 0 if flat else int(node.attributes["axis"])
    body = f"""
        {as_element("data", "x0", dtype)}
        {"x = Reshape (data, flat)" if flat else "x = Identity (data)"}
        {plugin_call("output, count", PLUGIN, "x, x1", {"axis": axis})}
        {from_element("y0", "output", dtype)}
    """
    constants = {"flat": np.array([-1])} if flat else {}
    return Replacement(statements(node, body, **constants), f"plugin {PLUGIN.name}")


COMPRESS_PLUGIN = NodeRule(
    "compress-plugin",
    "Compress by a plugin",
    ("Compress",),
    _rewrite,
)
