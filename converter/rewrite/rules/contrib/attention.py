"""onnxruntime's Attention: the projection to query, key and value, and their attention.

TensorRT takes it for ONNX's operator of that name, whose inputs are others, so that it always becomes standard operators.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import ints, split, squeeze, unsqueeze
from trtsmith.converter.rewrite.rules.contrib.attention_forms import (
    added_to_scores,
    attend,
    heads,
    length,
    too_old,
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
    scale = node.attributes.get("scale") or (sizes[0] // count) ** -0.5
    lines = [
        "product = MatMul (x0, x1)",
        "projected = Add (product, x2)" if node.input(2) else "projected = Identity (product)",
        split(["flat_q", "flat_k", "flat_v"], "projected", sizes, 2, node.opset),
        heads("query", "flat_q", count),
        heads("new_key", "flat_k", count),
        heads("new_value", "flat_v", count),
    ]
    if node.input(4):
        lines += [
            split(["past_k", "past_v"], "x4", [1, 1], 0, node.opset),
            squeeze("past_key", "past_k", [0], node.opset),
            squeeze("past_value", "past_v", [0], node.opset),
            "key = Concat <axis = 2> (past_key, new_key)",
            "value = Concat <axis = 2> (past_value, new_value)",
            length("past", "past_key", 2),
        ]
    else:
        lines += ["key = Identity (new_key)", "value = Identity (new_value)", ints("past", [0], scalar=True)]
    if node.used(1):
        lines += [
            unsqueeze("present_key", "key", [0], node.opset),
            unsqueeze("present_value", "value", [0], node.opset),
            "y1 = Concat <axis = 0> (present_key, present_value)",
        ]
    masks = added_to_scores(node, 3, dtype)
    if isinstance(masks, Refusal):
        return masks
    lines += masks[0]
    lines.append(attend("y0", "query", "key", "value", scale, masks[1], dtype))
    return Replacement(node.statements("\n".join(lines)), "a projection and the attention of its parts")


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
