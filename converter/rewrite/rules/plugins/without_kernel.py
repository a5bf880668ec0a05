"""Expands operators that have no kernel: TensorRT gets standard operators in their place."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.function_body import function_nodes
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.importers.expansion import ExpansionError, function_of
from trtsmith.importers.registry import by_name


def _rewrite(node: NodeView) -> Replacement | Refusal:
    op = by_name()[node.op_type]
    dtypes = {name: dtype for i, name in enumerate(node.inputs) if (dtype := node.dtype(i)) is not None}
    try:
        nodes = function_nodes(node, function_of(node.proto, dtypes, node.opset))
    except ExpansionError as error:
        what = f"{op.name} has no kernel, and its expansion cannot be written: {error}"
        return Refusal(what, error.expected, f"{error.fix}, or write a kernel for the operator")
    note = f"{op.name} has no kernel: TensorRT computes its expansion, made of standard operators"
    return Replacement(nodes, f"{op.name} by its expansion, as it has no kernel", notes=(note,))


WITHOUT_KERNEL = NodeRule(
    "without-kernel",
    "operators without a kernel, which TensorRT computes by their expansion",
    (),
    _rewrite,
    plugins=lambda op: op.by_expansion,
    opset=lambda node: by_name()[node.op_type].expansion_opset,
)
