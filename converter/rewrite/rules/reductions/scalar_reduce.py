"""Adds a dimension to a scalar before a reduction: TensorRT-RTX 1.7.1 says "at least 1 dimensions are required".

onnxruntime lets ReduceMin and ReduceMax before opset 12 have axes all the same.
"""

from __future__ import annotations

from trtsmith.converter.graph.operator_groups import REDUCTIONS
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.reductions.reduced_axes import reduced_axes


@node_rule("scalar-reduce", *REDUCTIONS)
def scalar_reduce_rule(node: NodeView) -> Replacement | None:
    """Rewrites reductions of a scalar as reductions of a one-element vector."""
    if node.rank(0) != 0 or reduced_axes(node, None) == []:
        return None
    w = Writer(node)
    return Replacement(
        w.finish(w.reduce(node.op_type, w.Unsqueeze(w.x[0], axes=[0]), [0], keepdims=False)),
        "the scalar as a vector of one element",
    )
