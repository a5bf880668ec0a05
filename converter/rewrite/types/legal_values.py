"""Finds the values of one graph while its types are legalised: each in its legal type, or in its ONNX type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.scope import Scope, all_scopes
from trtsmith.converter.graph.tensor_types import element_type
from trtsmith.converter.rewrite.types.legal_types import ILLEGAL_TYPES, legal_type
from trtsmith.converter.rewrite.types.operators import (
    IN_ONNX_TYPES,
    MOVES,
    QUANTIZING_DOMAINS,
    TYPE_ATTRIBUTES,
)
from trtsmith.importers.builder import Builder

INSIDE = "(a graph inside)"
"""Among the readers of a value: a node or output of a subgraph."""

_ODD = ILLEGAL_TYPES.keys() | {T.INT8}


def candidate(graph: Graph) -> bool:
    """Tests quickly whether any value may have an illegal type, or be an int8 that its node does not accept."""
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
    """Finds values that reach, through nodes that only move data, an operator whose result depends on the type."""
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
    """Returns the operators that read each value in this graph and those inside, by value name."""
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


class LegalValues:
    """`legal` and `native` name the value that holds an ONNX value in its legal type, or in its ONNX type.

    A value whose ONNX type TensorRT computes in is both, under its own name.
    builder: of the graph's new nodes, with nodes of the graph that stay in between. base: names what it writes next.
    """

    def __init__(self, scope: Scope, outer: LegalValues | None) -> None:
        """`scope` is still in ONNX's types."""
        self.scope = scope
        whole = scope.whole
        self.builder = Builder(whole.opset(""), lambda hint: whole.names.value(f"{self.base}/{hint}"))
        self.base = "types"
        self.outer = outer
        self._legal: dict[str, str] = {}
        self._native: dict[str, str] = {}
        self._made = {*scope.inputs, *scope.tensors, *scope.producers}
        self._elements = {
            name: element_type(value.type)
            for name, value in scope.types.items()
            if name in self._made or name in scope.outputs
        }
        for tensors in (scope.defaults, scope.tensors):
            self._elements.update((tensor.name, tensor.data_type) for tensor in tensors.values())
        self.readers = operators_reading(scope)
        self._wanted = wanted_in_onnx_types(scope)

    def elem(self, name: str) -> int:
        """ONNX element type of a value; 0 if unknown."""
        values: LegalValues | None = self
        while name and values is not None:
            if name in values._elements:
                return values._elements[name]
            values = values.outer
        return 0

    def wanted(self, name: str) -> bool:
        """Tells whether the value reaches, through nodes that only move data, an operator whose result depends on
        the type.
        """
        return name in self._wanted

    def wanted_legal(self, name: str) -> bool:
        """Tells whether another operator reads the value."""
        return bool(self.readers.get(name, set()) - IN_ONNX_TYPES - MOVES)

    def set_legal(self, name: str, elem: int, holder: str = "") -> None:
        """Registers the value's legal form, named `holder` or as the value."""
        self._elements[name] = elem
        self._legal[name] = holder or name

    def keep(self, name: str, elem: int) -> None:
        """Keeps the value's ONNX type and name."""
        self._elements[name] = elem
        self._native[name] = name

    def legal(self, name: str) -> str:
        """Returns the value in its legal type. Writes a conversion into this graph if needed."""
        if not name or self.elem(name) not in ILLEGAL_TYPES:
            return name
        found = self._found(name, "_legal")
        if found is not None:
            return found
        native = self._found(name, "_native")
        if native is None:
            return name
        self._legal[name] = self._out_of(native, self.elem(name))
        return self._legal[name]

    def native(self, name: str) -> str:
        """Returns the value in its ONNX type, for an operator whose result depends on the type."""
        if not name or self.elem(name) not in ILLEGAL_TYPES:
            return name
        found = self._found(name, "_native")
        if found is not None:
            return found
        if self._found(name, "_legal") is None:
            return name
        elem = self.elem(name)
        self._native[name] = self.builder.Cast(self.legal(name), to=elem).name
        return self._native[name]

    def give(self, name: str, op_type: str, value: str, **attributes: Any) -> None:
        """Writes a node that makes the value `name`."""
        self.builder.nodes.append(helper.make_node(op_type, [value], [name], **attributes))

    def kept(self, name: str) -> bool:
        """Tells whether the value keeps its ONNX type and name."""
        return self._found(name, "_native") == name

    def _found(self, name: str, table: str) -> str | None:
        values: LegalValues | None = self
        while values is not None:
            known: dict[str, str] = getattr(values, table)
            if name in known:
                return known[name]
            if name in values._made:  # an outer value of that name is another one
                return None
            values = values.outer
        return None

    def _out_of(self, name: str, elem: int) -> str:
        """TensorRT takes small floats and 4-bit integers out of their types by DequantizeLinear, here with scale 1."""
        g = self.builder
        held = elem in (T.UINT8, T.DOUBLE, T.INT16, T.UINT16, T.UINT32, T.UINT64)
        if g.opset < 19 or held:
            return g.Cast(name, to=legal_type(elem)).name
        real = g.DequantizeLinear(name, 1.0)
        return (real if legal_type(elem) == T.FLOAT else g.Cast(real, to=legal_type(elem))).name
