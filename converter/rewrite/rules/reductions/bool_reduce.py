"""Rewrites ReduceMax and ReduceMin of booleans (opset 20) as counts, as TensorRT does not reduce booleans.

The largest of booleans is true where there are some; the smallest where none is false. So nothing at all has the
largest false and the smallest true, as ONNX says of empty sets.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer


@node_rule("bool-reduce", "ReduceMax", "ReduceMin")
def bool_reduce_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites ReduceMax and ReduceMin of booleans as counts."""
    if node.dtype(0) != "bool":
        return None
    w = Writer(node)
    largest = node.op_type == "ReduceMax"
    counted = w.Cast(w.x[0] if largest else w.Not(w.x[0]), to="int32")
    given = {name: node.attributes[name] for name in ("keepdims", "noop_with_empty_axes")}
    some = w.Greater(w.ReduceSum(counted, *w.x[1:], **given), w.number(0, "int32"))
    return Replacement(w.finish(some if largest else w.Not(some)), f"{node.op_type} of booleans by counting")
