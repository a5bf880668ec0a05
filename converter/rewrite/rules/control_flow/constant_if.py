"""Replaces an If whose condition is constant only since folding by the branch that runs.

TensorRT-RTX 1.7.1 imports only the live branch where the condition is a constant of the graph. Where the graph computes
it (from fixed shapes, say), both branches are imported, and both have to be right: their operators known, their types
equal, their shapes possible. A Squeeze of an axis that is not 1 in the branch that never runs fails the build.
"""

from __future__ import annotations

import onnx

from trtsmith.converter.graph.constant_nodes import branch_of
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer

_NEVER_FAIL = frozenset(
    """Abs Acos Asin Atan Cast Ceil Constant Cos Elu Erf Exp Floor HardSigmoid Identity IsNaN LeakyRelu Log Neg Not
    Reciprocal Relu Round Selu Shape Sigmoid Sign Sin Size Softplus Softsign Sqrt Tan Tanh""".split()  # noqa: SIM905
)
"""Operators that TensorRT imports and that no shape of their input makes impossible."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    condition = node.constant(0)
    if condition is None or not (node.made or (node.folded(0) and not _both_are_right(node.proto))):
        return None
    branch = branch_of(condition)
    w = Writer(node)
    return Replacement(
        w.finish(*w.inline(node.graph(branch))),
        f"the {branch.replace('_', ' ')}, as the condition is constant",
    )


def _both_are_right(proto: onnx.NodeProto) -> bool:
    """Whether TensorRT takes both branches for certain."""
    graphs = [a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH]
    types = [[value.type.tensor_type.elem_type for value in graph.output] for graph in graphs]
    known = all(inner.op_type in _NEVER_FAIL and not inner.domain for graph in graphs for inner in graph.node)
    return known and types[0] == types[-1] and all(types[0])


CONSTANT_IF = NodeRule(
    "constant-if",
    "an If whose condition the graph computes as a constant becomes the branch that runs",
    ("If",),
    _rewrite,
)
