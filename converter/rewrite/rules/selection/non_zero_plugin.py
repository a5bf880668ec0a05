"""Replaces NonZero of a number of results that only a run tells with our plugin: TensorRT-RTX has no layer for it."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("NonZero")


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if dtype is None or dtype == "string" or node.rank(0) == 0:
        return None  # what a scalar gives, ONNX says in two ways
    taken = dtype in TYPE_VARIABLES[PLUGIN.key]
    w = Writer(node)
    data = w.x[0] if taken else w.Cast(w.x[0], to="bool")
    places, _ = plugin_outputs(w, PLUGIN, [data])
    return Replacement(w.finish(places), f"plugin {PLUGIN.name}")


NON_ZERO_PLUGIN = NodeRule(
    "non-zero-plugin",
    "NonZero by a plugin",
    ("NonZero",),
    _rewrite,
    flavour="tensorrt_rtx",
)
