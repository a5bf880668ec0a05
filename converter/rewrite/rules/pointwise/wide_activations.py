"""Computes HardSwish and Mish of bfloat16 in float32: TensorRT-RTX 1.7.1 has them for float32 and float16 only.

The result is rounded once, which is at least as near as a computation in bfloat16.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.dtype(0) != "bfloat16":
        return None
    w = Writer(node)
    result = w.write(node.op_type, w.Cast(w.x[0], to="float32"))
    return Replacement(w.finish(w.Cast(result, to="bfloat16")), f"{node.op_type} in float32")


WIDE_ACTIVATIONS = NodeRule(
    "wide-activations",
    "activations of bfloat16 that TensorRT has in float32",
    ("HardSwish", "Mish"),
    _rewrite,
)
