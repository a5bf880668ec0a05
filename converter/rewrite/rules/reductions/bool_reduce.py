"""Rewrites ReduceMax and ReduceMin of booleans (opset 20) as counts: TensorRT does not reduce booleans.

The largest of booleans is true where there are some; the smallest where none is false. So nothing at all has the
largest false and the smallest true, as ONNX says of empty sets.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.dtype(0) != "bool":
        return None
    keep = f"keepdims = {node.attributes['keepdims']}"
    empty = f"noop_with_empty_axes = {node.attributes['noop_with_empty_axes']}"
    inputs = "counted, x1" if node.input(1) else "counted"
    largest = node.op_type == "ReduceMax"
    body = f"""
        given = {"Identity" if largest else "Not"} (x0)
        counted = Cast <to = 6> (given)
        zero = Constant <value = int32 {{0}}> ()
        count = ReduceSum <{keep}, {empty}> ({inputs})
        {"y0" if largest else "some"} = Greater (count, zero)
        {"" if largest else "y0 = Not (some)"}
    """
    return Replacement(statements(node, body), f"{node.op_type} of booleans by counting")


BOOL_REDUCE = NodeRule(
    "bool-reduce",
    "ReduceMax and ReduceMin of booleans by counting",
    ("ReduceMax", "ReduceMin"),
    _rewrite,
)
