"""NonZero of a number of results that only a run tells, by our plugin: TensorRT-RTX has no layer for it."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import plugin_call
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("NonZero")


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if dtype is None or dtype == "string" or node.rank(0) == 0:
        return None  # what a scalar gives, ONNX says in two ways
    taken = dtype in TYPE_VARIABLES[PLUGIN.key]
    body = f"""
        {"x = Identity (x0)" if taken else "x = Cast <to = 9> (x0)"}
        {plugin_call("y0, count", PLUGIN, "x")}
    """
    return Replacement(statements(node, body), f"plugin {PLUGIN.name}")


NON_ZERO_PLUGIN = NodeRule(
    "non-zero-plugin",
    "NonZero by a plugin",
    ("NonZero",),
    _rewrite,
    flavour="tensorrt_rtx",
)
