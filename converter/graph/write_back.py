"""Writes an edited graph back to protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper

from trtsmith.converter.graph.walk import refill, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

if TYPE_CHECKING:
    from trtsmith.converter.graph.graph import Graph
    from trtsmith.converter.graph.node import Node
    from trtsmith.converter.graph.scope import Scope

_WRITTEN = frozenset({"node", "initializer", "value_info", "output"})
"""Fields of a GraphProto that a scope knows; the others are copied."""


def written_model(graph: Graph) -> Model:
    """Writes the graph as a new model that refers to the original's weight files."""
    source = graph.source.proto
    proto = onnx.ModelProto()
    for field, value in source.ListFields():
        if field.name != "graph":
            _assign(proto, field, value)
    known = {normalise_domain(entry.domain) for entry in source.opset_import}
    proto.opset_import.extend(
        helper.make_opsetid(domain, version)
        for domain, version in graph.opsets.items()
        if domain not in known
    )
    write_scope(graph.root, proto.graph)
    return graph.source.with_proto(proto)


def write_scope(scope: Scope, graph: onnx.GraphProto) -> None:
    """Writes one graph into an empty GraphProto."""
    for field, value in scope.graph.ListFields():
        if field.name not in _WRITTEN:
            _assign(graph, field, value)
    if any(scope.types.get(value.name, value) is not value for value in graph.input):
        refill(graph.input, (scope.types[name] for name in scope.inputs))
    graph.node.extend([up_to_date(node) for node in scope.nodes])
    graph.initializer.extend(scope.defaults.values())
    graph.initializer.extend(scope.tensors.values())
    producers, inputs, outputs = scope.producers, scope.inputs, scope.outputs
    graph.value_info.extend(
        value
        for name, value in scope.types.items()
        if name in producers and name not in outputs and name not in inputs
    )
    for name in scope.results:
        graph.output.append(scope.types.get(name) or onnx.ValueInfoProto(name=name))


def up_to_date(node: Node) -> onnx.NodeProto:
    """Returns the node's proto, with its subgraphs as they are now."""
    if node.scopes and any(map(_is_changed, node.scopes)):
        proto = node.edit()
        for scope, graph in zip(node.scopes, subgraphs(proto), strict=True):
            if _is_changed(scope):
                fresh = onnx.GraphProto()
                write_scope(scope, fresh)
                graph.CopyFrom(fresh)
                scope.changed = False
    return node.proto


def _is_changed(scope: Scope) -> bool:
    return scope.changed or any(_is_changed(inner) for node in scope.nodes for inner in node.scopes)


def _assign(message: Any, field: Any, value: Any) -> None:
    """Set a field of a protobuf message to a value of another message's field of the same kind."""
    target = getattr(message, field.name)
    if hasattr(target, "extend"):
        target.extend(value)
    elif field.message_type is not None:
        target.CopyFrom(value)
    else:
        setattr(message, field.name, value)
