"""An If whose condition is constant becomes the branch that runs, where TensorRT could not take the If.

That is where a branch has an operator that TensorRT's parser does not import, or where the graph computes the condition
(from shapes, say): TensorRT takes it for one of run time, and then refuses branches that differ in rank.
"""

from __future__ import annotations

import onnx
from onnx import helper

from converter.native import native_operators
from converter.passes.inline import graph_attribute, inlined
from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.scopes import all_graphs


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    condition = node.constant(0)
    if condition is None or not (node.made or node.folded(0) or _foreign(node.proto)):
        return None
    branch = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    nodes, results = inlined(graph_attribute(node.proto, branch), node)
    pairs = zip(results, node.outputs, strict=True)
    nodes += [helper.make_node("Identity", [value], [name]) for value, name in pairs if name]
    return Replacement(nodes, f"the {branch.replace('_', ' ')}, as the condition is constant")


def _foreign(proto: onnx.NodeProto) -> bool:
    """Whether a branch has an operator that TensorRT does not import."""
    return any(
        inner.op_type not in native_operators()
        for attribute in proto.attribute
        for graph in all_graphs(attribute.g)
        for inner in graph.node
    )


_EXAMPLES = (
    Example(
        "a branch with an operator that TensorRT lacks",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[3, 4] x) => (float[3, 4] y) {
            yes = Constant <value = bool {1}> ()
            y = If (yes) <
                then_branch = a () => (float[3, 4] p) { q = Neg (x)  p = Identity (q) },
                else_branch = b () => (float[3, 4] r) {
                    s = Constant <value = int64[2] {3, 4}> ()
                    r = CenterCropPad (x, s)
                }
            >
        }""",
    ),
)

CONSTANT_IF = NodeRule(
    "constant-if",
    "an If with a constant condition becomes the branch that runs",
    ("If",),
    _rewrite,
    _EXAMPLES,
)
