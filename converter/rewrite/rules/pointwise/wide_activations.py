"""Computes bfloat16 HardSwish and Mish in float32; TensorRT-RTX 1.7.1 has them for float32 and float16 only.

The result is rounded once, which is at least as near as a computation in bfloat16.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer


@node_rule("wide-activations", "HardSwish", "Mish")
def wide_activations_rule(node: NodeView) -> Replacement | Refusal | None:
    """Computes bfloat16 activations in float32 where TensorRT has no bfloat16 form."""
    if node.dtype(0) != "bfloat16":
        return None
    w = Writer(node)
    result = w.write(node.op_type, w.Cast(w.x[0], to="float32"))
    return Replacement(w.finish(w.Cast(result, to="bfloat16")), f"{node.op_type} in float32")
