"""An If whose condition is constant becomes the branch that runs, where TensorRT could not take the If.

That is where a branch has an operator that TensorRT's parser does not import, or where the graph computes the condition
(from shapes, say): TensorRT takes it for one of run time, and then refuses branches that differ in rank.
"""

from __future__ import annotations

import onnx
from onnx import helper

from converter.native import native_operators
from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.scopes import all_graphs
from converter.passes.values import rename_values


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    condition = node.constant(0)
    if condition is None or not (node.made or node.folded(0) or _foreign(node.proto)):
        return None
    branch = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    graph = onnx.GraphProto()
    graph.CopyFrom(next(a.g for a in node.proto.attribute if a.name == branch))
    return Replacement(_inlined(graph, node), f"the {branch.replace('_', ' ')}, as the condition is constant")


def _foreign(proto: onnx.NodeProto) -> bool:
    """Whether a branch has an operator that TensorRT does not import."""
    return any(
        inner.op_type not in native_operators()
        for attribute in proto.attribute
        for graph in all_graphs(attribute.g)
        for inner in graph.node
    )


def _inlined(graph: onnx.GraphProto, node: NodeView) -> list[onnx.NodeProto]:
    """The branch's nodes under fresh names, then the outputs of the If."""
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializer]
    nodes.extend(graph.node)
    renamed = {name: node.fresh(name) for made in nodes for name in made.output if name}
    for made in nodes:
        rename_values(made, renamed, node.fresh)
    pairs = zip(graph.output, node.outputs, strict=True)
    ends = [(renamed.get(value.name, value.name), name) for value, name in pairs if name]
    return [*nodes, *(helper.make_node("Identity", [value], [name]) for value, name in ends)]


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
