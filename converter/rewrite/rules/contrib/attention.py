"""Rewrites onnxruntime's Attention as its projection to query, key and value, and their attention.

TensorRT takes it for ONNX's operator of that name, whose inputs are others, so that it always becomes standard operators.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import (
    added_to_scores,
    attend,
    behind,
    heads,
    stacked,
    too_old,
    uneven,
    unstacked,
)
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown, unknown_type


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    fault = too_old(node) or _unsupported(node)
    if fault is not None:
        return fault
    count = node.attributes["num_heads"]
    sizes = _sizes(node)
    if isinstance(sizes, Refusal):
        return sizes
    fault = uneven(node, count, sizes[0]) or uneven(node, count, sizes[2])
    if fault is not None:
        return fault
    scale = node.attributes.get("scale") or (sizes[0] // count) ** -0.5
    w = Writer(node)
    product = w.MatMul(w.x[0], w.x[1])
    projected = w.Add(product, w.x[2]) if node.input(2) else product
    query, new_key, new_value = (heads(w, part, count) for part in w.split(projected, sizes, 2))
    key, value, past = behind(w, unstacked(w, w.x[4]) if node.input(4) else None, new_key, new_value)
    added = added_to_scores(w, 3, query, key, past, dtype)
    if isinstance(added, Refusal):
        return added
    result, _ = attend(w, query, key, value, scale, added, dtype)
    return Replacement(
        w.finish(result, stacked(w, key, value)), "a projection and the attention of its parts"
    )


def _unsupported(node: NodeView) -> Refusal | None:
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return Refusal(
                f"{name} = {node.attributes[name]}",
                f"{name} = 0",
                "export the model without "
                + ("fused rotary embeddings" if "rotary" in name else "shared buffers"),
            )
    return None


def _sizes(node: NodeView) -> list[int] | Refusal:
    """Widths of query, key and value."""
    given = node.attributes.get("qkv_hidden_sizes") or []
    if len(given) == 3:
        return list(given)
    weights = node.shape(1)
    total = weights[-1] if weights else None
    return unknown(node, 1, "the last size") if total is None else [total // 3] * 3


CONTRIB_ATTENTION = NodeRule(
    "contrib-attention",
    "onnxruntime's Attention becomes a projection, two products and a Softmax",
    ("com.microsoft::Attention",),
    _rewrite,
)
