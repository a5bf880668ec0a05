"""Replaces Compress by a condition that only a run tells with our plugin: no TensorRT has a layer for it."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import (
    as_element,
    from_element,
    is_element,
    plugin_outputs,
)
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("Compress")


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    axis = 0 if flat else int(node.attributes["axis"])
    w = Writer(node)
    element = as_element(w, w.x[0], dtype)
    data = w.Reshape(element, shape=[-1]) if flat else element
    output, _ = plugin_outputs(w, PLUGIN, [data, w.x[1]], {"axis": axis})
    return Replacement(w.finish(from_element(w, output, dtype)), f"plugin {PLUGIN.name}")


COMPRESS_PLUGIN = NodeRule(
    "compress-plugin",
    "Compress by a plugin",
    ("Compress",),
    _rewrite,
)
