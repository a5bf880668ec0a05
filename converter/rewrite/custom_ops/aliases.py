"""Replaces custom nodes by plugin nodes, using the operators' aliases."""

from __future__ import annotations

from collections.abc import Container, Iterator

import onnx
import onnx_graphsurgeon as gs

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.rewrite.custom_ops.surgery import (
    all_graphs,
    domain_of,
    ensure_domain,
    foreign_node,
    opset_of,
    replace_nodes,
    value_names,
    with_fresh_names,
)
from trtsmith.converter.rewrite.engine.records import Declined, Record, Rewrite
from trtsmith.importers.lowering import Lowered, lower
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Refusal
from trtsmith.importers.registry import find_aliases, package_of

NAME = "aliases"


def qualified(domain: str, op_type: str) -> str:
    """Returns a node's kind for messages: mmcv::grid_sampler, or the bare op_type for the default domain."""
    return f"{domain}::{op_type}" if domain else op_type


def rewrite_aliases(graph: gs.Graph) -> Iterator[Record]:
    """Replaces every node that has an alias. Node names must be unique."""
    values = value_names(graph)
    for part in all_graphs(graph):
        wanted = {tensor.name for tensor in part.outputs}
        replacements: dict[int, list[onnx.NodeProto]] = {}
        for node in part.nodes:
            domain = domain_of(node)
            if not find_aliases(domain, node.op):
                continue
            result = _lowered(node, opset_of(graph, domain), wanted)
            if isinstance(result, Refusal):
                yield Declined(node.name, qualified(domain, node.op), NAME, result)
            elif result is not None:
                own = {tensor.name for tensor in (*node.inputs, *node.outputs)}
                replacements[id(node)] = with_fresh_names(result.nodes, own, values)
                made = f"{'operator' if result.op.by_expansion else 'plugin'} {result.op.name}"
                yield Rewrite(
                    node.name,
                    qualified(domain, node.op),
                    NAME,
                    f"{made}, an alias of {result.alias.source}",
                    result.plugin_node,
                    result.notes,
                )
        replace_nodes(part, replacements)
        if replacements:
            ensure_domain(graph, PLUGIN_NAMESPACE)


def _lowered(node: gs.Node, opset: int, wanted: Container[str]) -> Lowered | Refusal | None:
    """The replacement of the node. Raises UsageError if the definition is a user's and is inconsistent."""
    try:
        return lower(foreign_node(node, node.name, wanted), opset)
    except LookupError as error:
        for op, alias in find_aliases(domain_of(node), node.op):
            package = package_of(op.name)
            if package is not None:
                raise UsageError(
                    f"{package.name}: {op.name}: the alias {alias.op_type!r} is wrong: {error.args[0]}",
                    f"node {node.name!r} ({qualified(domain_of(node), node.op)})",
                    "prologue and epilogue that read inputs, ports, and what they make themselves",
                    "correct the definition, or remove its package",
                ) from error
        raise
