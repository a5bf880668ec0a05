"""Replaces Compress by a condition that only a run tells with our plugin: no TensorRT has a layer for it."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import (
    as_element,
    is_element,
    write_from_element,
    write_plugin,
)
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("Compress")


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    axis = 0 if flat else int(node.attributes["axis"])
    w = Writer(node)
    element = as_element(w, "x0", dtype)
    data = w.reshape(element, [-1]) if flat else w.do("Identity", element)
    write_plugin(w, ["output", "count"], PLUGIN, [data, "x1"], {"axis": axis})
    write_from_element(w, "y0", "output", dtype)
    return Replacement(w.nodes(), f"plugin {PLUGIN.name}")


COMPRESS_PLUGIN = NodeRule(
    "compress-plugin",
    "Compress by a plugin",
    ("Compress",),
    _rewrite,
)
