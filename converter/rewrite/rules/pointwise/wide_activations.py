"""Computes HardSwish and Mish of bfloat16 in float32: TensorRT-RTX 1.7.1 has them for float32 and float16 only.

The result is rounded once, which is at least as near as a computation in bfloat16.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.dtype(0) != "bfloat16":
        return None
    body = f"""
        wide = Cast <to = 1> (x0)
        result = {node.op_type} (wide)
        y0 = Cast <to = 16> (result)
    """
    return Replacement(statements(node, body), f"{node.op_type} in float32")


WIDE_ACTIVATIONS = NodeRule(
    "wide-activations",
    "activations of bfloat16 that TensorRT has in float32",
    ("HardSwish", "Mish"),
    _rewrite,
)
