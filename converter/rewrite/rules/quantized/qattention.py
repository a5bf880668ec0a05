"""Rewrites onnxruntime's QAttention: an exact integer projection to query, key and value, then attention in float.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention. What it writes are
MatMulIntegerToFloat and MultiHeadAttention, which other rules take.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import stacked, unstacked

_COPIED = ("num_heads", "scale", "mask_filter_value", "unidirectional")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return Refusal(
                f"{name} = {node.attributes[name]}", f"{name} = 0", "export the model without this fusion"
            )
    weights = node.shape(1)
    if not weights or weights[-1] is None:
        return Refusal("the size of its weights is not known", "constant weights", "make them initializers")

    w = Writer(node)
    given = [w.x[index] if node.input(index) else None for index in range(9)]
    projected = w.MatMulIntegerToFloat(
        *w.x[:2], *w.x[3:5], given[6], given[7], given[2], domain="com.microsoft"
    )
    inputs: list[Value | None] = [*w.split(projected, [weights[-1] // 3] * 3, 2)]
    if node.input(5) or node.input(8):
        inputs += [None, given[5]]
    if node.input(8):
        inputs += [None, *unstacked(w, w.x[8])]
    result, *present = w.MultiHeadAttention(
        *inputs, outputs=3 if node.used(1) else 1, domain="com.microsoft", **node.own(*_COPIED)
    )
    return Replacement(
        w.finish(result, stacked(w, *present) if present else None),
        "an integer projection, then attention of its parts",
    )


QATTENTION = NodeRule(
    "qattention",
    "QAttention becomes MatMulIntegerToFloat and MultiHeadAttention",
    ("com.microsoft::QAttention",),
    _rewrite,
)
