"""Walks over protobuf graphs, their subgraphs and their content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import onnx

from trtsmith.importers.registry import normalise_domain

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yields the graphs among a node's attributes."""
    if may_have_graphs(node.op_type, node.domain):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                yield from attribute.graphs


def refill(field: Any, values: Iterable[Any]) -> None:
    """Replaces the content of a repeated field."""
    del field[:]
    field.extend(values)


def values_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the values that a node or its subgraphs read; "" for an input that is left out."""
    yield from node.input
    for graph in subgraphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from values_read(inner)


def graph_attributes(node: onnx.NodeProto) -> list[str]:
    """Names, for each subgraph of a node, its attribute."""
    return [
        attribute.name
        for attribute in node.attribute
        if attribute.type in _GRAPHS
        for _ in range(len(attribute.graphs) if attribute.type == onnx.AttributeProto.GRAPHS else 1)
    ]


@cache
def may_have_graphs(op_type: str, domain: str) -> bool:
    """Tells whether the node may have subgraphs; False for ONNX's operators without a graph attribute."""
    if domain and normalise_domain(domain):
        return True
    try:
        attributes = onnx.defs.get_schema(op_type).attributes
    except onnx.defs.SchemaError:
        return True
    kinds = onnx.defs.OpSchema.AttrType
    return any(attribute.type in (kinds.GRAPH, kinds.GRAPHS) for attribute in attributes.values())


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields this graph and its subgraphs, outer ones first."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from all_graphs(inner)


def elem_types(graph: onnx.GraphProto) -> set[int]:
    """Returns the onnx.TensorProto.DataType of every initializer and value whose type is known, also in inner graphs."""
    found: set[int] = set()
    for part in all_graphs(graph):
        found.update(tensor.data_type for tensor in part.initializer)
        values = (*part.input, *part.value_info, *part.output)
        found.update(value.type.tensor_type.elem_type for value in values)
    return found
