"""Walks a model's graphs and legalises values of types that TensorRT lacks: see the package's docstring."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import inliner

from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import element_type
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.types.io_types import IoType
from trtsmith.converter.rewrite.types.ledger import Ledger
from trtsmith.converter.rewrite.types.legal_types import (
    ILLEGAL_TYPES,
    INTEGERS,
    QUANTIZED,
    legal_array,
    legal_type,
    retyped,
)
from trtsmith.converter.rewrite.types.legal_values import INSIDE, LegalValues, candidate
from trtsmith.converter.rewrite.types.nodes import NodeLegaliser
from trtsmith.importers.dtypes import dtype_name


@dataclass(frozen=True)
class Legalisation:
    """Records of changed nodes, inputs and outputs. changed: whether there are any."""

    rewrites: tuple[Rewrite, ...] = ()
    io_types: tuple[IoType, ...] = ()
    changed: bool = False


def legalise_types(graph: Graph) -> Legalisation:
    """Edits the graph. Types are inferred before and afterwards."""
    if not candidate(graph):
        return Legalisation()
    flat = graph
    if graph.functions:
        model = graph.model()
        with foreign_code():
            inlined = inliner.inline_local_functions(model.proto)
        flat = Graph(infer_shapes(model.with_proto(inlined)))
    work = _Retyper(flat)
    work.scope(flat.root, None)
    if not work.ledger.changed:
        return Legalisation()
    work.finish()
    flat.infer()
    if flat is not graph:
        graph.become(flat.model())
    return Legalisation(tuple(work.ledger.rewrites), tuple(work.ledger.io_types.values()), True)


class _Retyper:
    """One model. It is changed graph by graph, from the outside in and in the nodes' order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes_of: dict[Scope, list[Node | onnx.NodeProto]] = {}
        self.ledger = Ledger(graph)
        root = graph.root
        bytes_out = frozenset(name for name in root.results if _tensor_elem(root, name) == T.UINT8)
        self._nodes = NodeLegaliser(self.ledger, bytes_out, self._tensor, self.scope)

    def scope(self, scope: Scope, outer: LegalValues | None) -> None:
        values = LegalValues(scope, outer)
        self._inputs(scope, values)
        self._initializers(scope, values)
        main = scope.outer is None
        edge = {name for name in scope.results if main and _tensor_elem(scope, name) == T.UINT8}
        last = {name for name in edge if name not in values.readers}
        for node in list(scope.nodes):
            self._nodes.node(node, values, last)
        self._outputs(scope, values, edge)
        self._nodes_of[scope] = values.builder.nodes
        ends = scope.inputs.keys() | scope.outputs
        for name in list(scope.types):
            if name not in ends and not values.kept(name):
                self.ledger.changed |= self._retyped(scope, name)

    def finish(self) -> None:
        """Inserts the written nodes into their graphs."""
        for scope, nodes in self._nodes_of.items():
            scope.rebuild(nodes)

    def _retyped(self, scope: Scope, name: str) -> bool:
        """Gives a value its legal type; whether that changed it."""
        value = scope.types.get(name)
        if value is None or element_type(value.type) not in ILLEGAL_TYPES:
            return False
        type_ = onnx.TypeProto()
        type_.CopyFrom(value.type)
        if not retyped(type_):
            return False
        scope.set_type(name, type_)
        return True

    # the ends of a graph

    def _inputs(self, scope: Scope, values: LegalValues) -> None:
        main = scope.outer is None
        for name in scope.inputs:
            elem = _tensor_elem(scope, name)
            if (main and elem == T.UINT8) or (elem in QUANTIZED and values.wanted(name)):
                values.keep(name, elem)
                if elem == T.UINT8 and INSIDE in values.readers.get(name, ()):
                    values.legal(name)  # TensorRT wants the Cast next to the input, not in a branch
                continue
            if not self._retyped(scope, name):
                continue
            self.ledger.changed = True
            values.set_legal(name, elem or values.elem(name))
            if main and elem:
                self.ledger.io(name, elem)

    def _initializers(self, scope: Scope, values: LegalValues) -> None:
        for tensor in [*scope.defaults.values(), *scope.tensors.values()]:
            name, elem = tensor.name, tensor.data_type
            if elem not in ILLEGAL_TYPES or (name in scope.inputs and values.kept(name)):
                continue
            if not values.wanted(name):
                if name not in scope.inputs and _worth_bytes(tensor, self._graph):
                    values.set_legal(name, elem, self._in_bytes(scope, values, tensor))
                    scope.drop_tensor(name)
                else:
                    legal = self._tensor(tensor)
                    if elem == T.UINT8 and scope.outer is None and name in scope.outputs:
                        scope.drop_tensor(name)  # a Cast makes the output
                        legal.name = self._graph.names.value(f"{name}/int32")
                    scope.set_tensor(legal)
                    values.set_legal(name, elem, legal.name)
                self.ledger.changed = True
                continue
            values.keep(name, elem)
            if not values.wanted_legal(name):
                continue
            if _worth_bytes(tensor, self._graph):  # others want it in its legal type
                values.set_legal(name, elem, self._in_bytes(scope, values, tensor))
            else:
                more = self._tensor(tensor)
                more.name = self._graph.names.value(f"{name}/{dtype_name(legal_type(elem))}")
                scope.set_tensor(more)
                values.set_legal(name, elem, more.name)

    def _in_bytes(self, scope: Scope, values: LegalValues, tensor: onnx.TensorProto) -> str:
        """A constant in its legal type, int32, of one in int8: the name of the value."""
        array = self._graph.source.array(tensor)
        less = 128 if tensor.data_type == T.UINT8 else 0
        name = self._graph.names.value(f"{tensor.name}/int8")
        small = (array.astype(np.int16) - less).astype(np.int8)
        scope.set_tensor(onnx.numpy_helper.from_array(small, name))
        wide = values.builder.Cast(name, to="int32")
        return (wide + np.int32(less) if less else wide).name

    def _tensor(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        array = legal_array(self._graph.source.array(tensor), tensor.data_type)
        return self._graph.tensor(array, tensor.name)

    def _outputs(self, scope: Scope, values: LegalValues, edge: set[str]) -> None:
        main = scope.outer is None
        for position, name in enumerate(list(scope.results)):
            elem = _tensor_elem(scope, name)
            if values.kept(name) and main:
                continue
            if name in edge:
                values.give(name, "Cast", values.legal(name), to=T.UINT8)
                self.ledger.changed = True
                continue
            holder = values.legal(name)
            if holder != name:  # an inner graph gives what an outer one has, or what was kept
                scope.set_result(position, holder)
            if self._retyped(scope, holder):
                self.ledger.changed = True
                if main and elem:
                    self.ledger.io(name, elem)


_LARGE = 4096
"""Elements from which on a constant is worth two nodes that make int32 of it: an engine then has a byte for each."""


def _worth_bytes(tensor: onnx.TensorProto, graph: Graph) -> bool:
    integer = INTEGERS.get(tensor.data_type)
    return integer is not None and integer.bits <= 8 and prod(tensor.dims) > _LARGE and graph.opset("") >= 10


def _tensor_elem(scope: Scope, name: str) -> int:
    """Element type of an input or output of the graph; 0 if it is no tensor."""
    value = scope.types.get(name)
    return 0 if value is None else int(value.type.tensor_type.elem_type)
