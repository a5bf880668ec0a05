"""Rewrites onnxruntime's QAttention: an exact integer projection to query, key and value, then attention in float.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention. What it writes are
MatMulIntegerToFloat and MultiHeadAttention, which other rules take.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import unstacked, write_present

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
    given = [f"x{index}" if node.input(index) else "" for index in range(9)]
    projected = w.do(
        "com.microsoft::MatMulIntegerToFloat", "x0", "x1", "x3", "x4", given[6], given[7], given[2]
    )
    inputs = w.split(projected, [weights[-1] // 3] * 3, 2)
    if node.input(5) or node.input(8):
        inputs += ["", given[5]]
    if node.input(8):
        inputs += ["", *unstacked(w, "x8")]
    results = ["y0", "key", "value"] if node.used(1) else ["y0"]
    w.many("com.microsoft::MultiHeadAttention", inputs, results, **node.own(*_COPIED))
    if node.used(1):
        write_present(w, "key", "value")
    return Replacement(w.nodes(), "an integer projection, then attention of its parts")


QATTENTION = NodeRule(
    "qattention",
    "QAttention becomes MatMulIntegerToFloat and MultiHeadAttention",
    ("com.microsoft::QAttention",),
    _rewrite,
)
