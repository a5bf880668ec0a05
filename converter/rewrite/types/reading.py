"""What a model has to carry, and who reads its values."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.scopes import all_graphs
from trtsmith.converter.rewrite.types.legal_types import CARRIERS
from trtsmith.converter.rewrite.types.names import element_type
from trtsmith.converter.rewrite.types.operators import IN_ONNX_TYPES, MOVES, TYPE_ATTRIBUTES
from trtsmith.importers.registry import normalise_domain

INSIDE = "(a graph inside)"
"""Among the readers of a value: a node or output of a subgraph."""


def candidate(proto: onnx.ModelProto) -> bool:
    """Whether any value may have a type to carry, or be an int8 that a node cannot take. Cheap."""
    odd = CARRIERS.keys() | {T.INT8}
    return any(elem in odd for graph in all_graphs(proto.graph) for elem in _elements(graph)) or bool(
        proto.functions
        and any(elem in odd for f in proto.functions for node in f.node for elem in _attribute_types(node))
    )


def _elements(graph: onnx.GraphProto) -> Iterator[int]:
    yield from (tensor.data_type for tensor in graph.initializer)
    yield from (element_type(value.type) for value in (*graph.input, *graph.output, *graph.value_info))
    for node in graph.node:
        yield from _attribute_types(node)


def _attribute_types(node: onnx.NodeProto) -> Iterator[int]:
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES:
            yield attribute.i
        elif attribute.HasField("t"):
            yield attribute.t.data_type


def wanted_in_onnx_types(graph: onnx.GraphProto) -> set[str]:
    """Values that an operator reads to which the type itself counts, through others that only move them."""
    wanted = {
        name
        for part in all_graphs(graph)
        for node in part.node
        if node.op_type in IN_ONNX_TYPES and not normalise_domain(node.domain)
        for name in node.input
    }
    for node in reversed(graph.node):
        if node.op_type in MOVES and wanted.intersection(node.output):
            wanted.update(node.input)
    return wanted


def operators_reading(graph: onnx.GraphProto) -> dict[str, set[str]]:
    """By value name, the operators that read it in this graph and those inside."""
    readers: dict[str, set[str]] = {}
    for part in all_graphs(graph):
        for node in part.node:
            for name in node.input:
                if name:
                    readers.setdefault(name, set()).add(node.op_type)
                    if part is not graph:
                        readers[name].add(INSIDE)
        if part is not graph:
            for value in part.output:
                readers.setdefault(value.name, set()).add(INSIDE)
    return readers
