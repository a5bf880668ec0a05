"""onnxruntime's QAttention: an exact integer projection to query, key and value, then attention in float.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention. What it writes are
MatMulIntegerToFloat and MultiHeadAttention, which other rules take.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import split, squeeze, unsqueeze

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

    def given(index: int) -> str:
        return f"x{index}" if node.input(index) else '""'

    lines = [
        "projected = com.microsoft.MatMulIntegerToFloat "
        f"(x0, x1, x3, x4, {given(6)}, {given(7)}, {given(2)})",
        split(["query", "key", "value"], "projected", [weights[-1] // 3] * 3, 2, node.opset),
    ]
    inputs = ["query", "key", "value"]
    if node.input(5) or node.input(8):
        inputs += ['""', given(5)]
    if node.input(8):
        lines += [
            split(["past_k", "past_v"], "x8", [1, 1], 0, node.opset),
            squeeze("past_key", "past_k", [0], node.opset),
            squeeze("past_value", "past_v", [0], node.opset),
        ]
        inputs += ['""', "past_key", "past_value"]
    attributes = ", ".join(f"{name} = {node.attributes[name]!r}" for name in _COPIED if node.given(name))
    outputs = "y0, now_key, now_value" if node.used(1) else "y0"
    lines.append(f"{outputs} = com.microsoft.MultiHeadAttention <{attributes}> ({', '.join(inputs)})")
    if node.used(1):
        lines += [
            unsqueeze("present_key", "now_key", [0], node.opset),
            unsqueeze("present_value", "now_value", [0], node.opset),
            "y1 = Concat <axis = 0> (present_key, present_value)",
        ]
    return Replacement(
        node.statements("\n".join(lines)), "an integer projection, then attention of its parts"
    )


QATTENTION = NodeRule(
    "qattention",
    "QAttention becomes MatMulIntegerToFloat and MultiHeadAttention",
    ("com.microsoft::QAttention",),
    _rewrite,
)
