"""Replaces TopK of more elements than TensorRT's layer gives (3,840) by our plugin."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import (
    as_element,
    from_element,
    is_element,
    plugin_outputs,
)
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.registry import standing_for

LARGEST = 3840
"""TensorRT-RTX 1.7.1: "K exceeds the maximum value allowed (3840)"."""

PLUGIN = standing_for("TopK")


@node_rule("large-top-k-plugin", "TopK")
def large_top_k_plugin_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites TopK of more elements than TensorRT's layer gives as a plugin."""
    k = node.constant(1) if node.opset >= 10 else np.array(node.attributes.get("k", 0))
    dtype = node.dtype(0)
    if k is None or int(k.reshape(-1)[0]) <= LARGEST or not is_element(dtype):
        return None
    count, axis, shape = int(k.reshape(-1)[0]), int(node.attributes.get("axis", -1)), node.shape(0)
    size = shape[axis] if shape and -len(shape) <= axis < len(shape) else None
    if isinstance(size, int) and size < count:
        return Refusal(
            f"{count:,} of the {size:,} elements of {node.input(0)!r} along axis {axis} are requested",
            f"{size:,} at most",
            "correct the number, which is TopK's second input",
        )
    fields = {"k": count, "axis": axis, "largest": int(node.attributes.get("largest", 1))}
    w = Writer(node)
    values, indices = plugin_outputs(w, PLUGIN, [as_element(w, w.x[0], dtype)], fields)
    return Replacement(w.finish(from_element(w, values, dtype), indices), f"plugin {PLUGIN.name}")
