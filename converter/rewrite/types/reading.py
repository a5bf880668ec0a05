"""Finds the values that a model must legalise, and their readers."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.scope import Scope, all_scopes
from trtsmith.converter.graph.tensor_types import element_type
from trtsmith.converter.rewrite.types.legal_types import ILLEGAL_TYPES
from trtsmith.converter.rewrite.types.operators import (
    IN_ONNX_TYPES,
    MOVES,
    QUANTIZING_DOMAINS,
    TYPE_ATTRIBUTES,
)

INSIDE = "(a graph inside)"
"""Among the readers of a value: a node or output of a subgraph."""

_ODD = ILLEGAL_TYPES.keys() | {T.INT8}


def candidate(graph: Graph) -> bool:
    """Whether any value may have a type that is not legal, or be an int8 that a node cannot take. Cheap."""
    return any(elem in _ODD for scope in graph.scopes() for elem in _elements(scope)) or any(
        elem in _ODD
        for f in graph.source.proto.functions
        for node in f.node
        for elem in _attribute_types(node)
    )


def _elements(scope: Scope) -> Iterator[int]:
    for tensors in (scope.defaults, scope.tensors):
        yield from (tensor.data_type for tensor in tensors.values())
    yield from (element_type(value.type) for value in scope.types.values())
    for node in scope.nodes:
        yield from _attribute_types(node.proto)


def _attribute_types(node: onnx.NodeProto) -> Iterator[int]:
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES:
            yield attribute.i
        elif attribute.HasField("t"):
            yield attribute.t.data_type


def wanted_in_onnx_types(scope: Scope) -> set[str]:
    """Values that an operator reads to which the type itself counts, through others that only move them."""
    wanted = {
        name
        for part in all_scopes(scope)
        for node in part.nodes
        if node.op_type in IN_ONNX_TYPES and node.domain in QUANTIZING_DOMAINS
        for name in node.inputs
    }
    for node in reversed(scope.nodes):
        if node.op_type in MOVES and wanted.intersection(node.outputs):
            wanted.update(node.inputs)
    return wanted


def operators_reading(scope: Scope) -> dict[str, set[str]]:
    """The operators that read each value in this graph and those inside, by value name."""
    readers: dict[str, set[str]] = {}
    for part in all_scopes(scope):
        for node in part.nodes:
            for name in node.inputs:
                if name:
                    readers.setdefault(name, set()).add(node.op_type)
                    if part is not scope:
                        readers[name].add(INSIDE)
        if part is not scope:
            for name in part.results:
                readers.setdefault(name, set()).add(INSIDE)
    return readers
