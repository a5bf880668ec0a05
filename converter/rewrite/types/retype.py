"""Walks a model's graphs and carries values of types that TensorRT does not compute in: see the package's docstring."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from onnx import TensorProto as T
from onnx import inliner

from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.types.emitter import Emitter
from trtsmith.converter.rewrite.types.io_types import IoType
from trtsmith.converter.rewrite.types.ledger import Ledger
from trtsmith.converter.rewrite.types.legal_types import (
    CARRIERS,
    QUANTISED,
    carried_array,
    carrier,
    dtype_name,
    retyped,
)
from trtsmith.converter.rewrite.types.legal_values import Values, tensor_elem
from trtsmith.converter.rewrite.types.names import Names
from trtsmith.converter.rewrite.types.nodes import NodeCarrier
from trtsmith.converter.rewrite.types.reading import INSIDE, candidate


@dataclass(frozen=True)
class Carried:
    """The model with carried types (itself if it has none), a record for each node that changed, and changed I/O."""

    model: Model
    rewrites: tuple[Rewrite, ...] = ()
    io_types: tuple[IoType, ...] = ()


def carry_types(model: Model) -> Carried:
    """`model` has its shapes inferred; so has the result."""
    if not candidate(model.proto):
        return Carried(model)
    proto = model.proto
    if proto.functions:
        flat = inliner.inline_local_functions(proto)
        model = infer_shapes(model.with_proto(flat))
    copy = onnx.ModelProto()
    copy.CopyFrom(model.proto)
    work = _Retyper(model.with_proto(copy))
    work.graph(copy.graph, None)
    if not work.ledger.changed:
        return Carried(model if not proto.functions else model.with_proto(proto))
    return Carried(infer_shapes(work.model), tuple(work.ledger.rewrites), tuple(work.ledger.io_types))


class _Retyper:
    """One model. Its proto is changed in place, graph by graph, from the outside in and in the nodes' order."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._names = Names(model.proto)
        self.ledger = Ledger(self._names)
        bytes_out = frozenset(v.name for v in model.proto.graph.output if tensor_elem(v) == T.UINT8)
        self._nodes = NodeCarrier(self.ledger, bytes_out, self._tensor, self.graph)

    def graph(self, graph: onnx.GraphProto, outer: Values | None) -> None:
        emit = Emitter(self._names)
        values = Values(graph, emit, outer)
        self._inputs(graph, values, outer is None)
        self._initializers(graph, values)
        results = {v.name: tensor_elem(v) for v in graph.output}
        edge = {name for name, elem in results.items() if outer is None and elem == T.UINT8}
        last = {name for name in edge if name not in values.readers}
        for node in graph.node:
            self._nodes.node(node, values, last)
        self._outputs(graph, values, edge, outer is None)
        del graph.node[:]
        graph.node.extend(emit.nodes)
        for value in graph.value_info:
            if not values.kept(value.name):
                self.ledger.changed |= retyped(value.type)

    # the ends of a graph

    def _inputs(self, graph: onnx.GraphProto, values: Values, main: bool) -> None:
        for value in graph.input:
            elem = tensor_elem(value)
            if (main and elem == T.UINT8) or (elem in QUANTISED and values.wanted(value.name)):
                values.keep(value.name, elem)
                if elem == T.UINT8 and INSIDE in values.readers.get(value.name, ()):
                    values.carried(value.name)  # TensorRT wants the Cast next to the input, not in a branch
                continue
            kind = value.type.WhichOneof("value")
            if not retyped(value.type):
                continue
            self.ledger.changed = True
            values.carry(value.name, elem or values.elem(value.name))
            if main and kind == "tensor_type":
                self.ledger.io(value.name, elem)

    def _initializers(self, graph: onnx.GraphProto, values: Values) -> None:
        inputs = {value.name for value in graph.input}
        more: list[onnx.TensorProto] = []
        for tensor in graph.initializer:
            elem = tensor.data_type
            if elem not in CARRIERS or (tensor.name in inputs and values.kept(tensor.name)):
                continue
            if not values.wanted(tensor.name):
                tensor.CopyFrom(self._tensor(tensor))
                values.carry(tensor.name, elem)
                self.ledger.changed = True
                continue
            values.keep(tensor.name, elem)
            if values.wanted_carried(tensor.name):  # others want it in its carrier
                more.append(self._tensor(tensor))
                more[-1].name = self._names.value(f"{tensor.name}/{dtype_name(carrier(elem))}")
                values.carry(tensor.name, elem, more[-1].name)
        graph.initializer.extend(more)

    def _tensor(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        array = carried_array(self.model.array(tensor), tensor.data_type)
        return onnx.numpy_helper.from_array(array, tensor.name)

    def _outputs(self, graph: onnx.GraphProto, values: Values, edge: set[str], main: bool) -> None:
        for value in graph.output:
            elem = tensor_elem(value)
            if values.kept(value.name) and main:
                continue
            if value.name in edge:
                values.emit.cast(values.carried(value.name), T.UINT8, out=value.name)
                self.ledger.changed = True
                continue
            holder = values.carried(value.name)
            if holder != value.name:  # an inner graph gives what an outer one has, or what was kept
                value.name = holder
            kind = value.type.WhichOneof("value")
            if retyped(value.type):
                self.ledger.changed = True
                if main and kind == "tensor_type":
                    self.ledger.io(value.name, elem)


__all__ = ["Carried", "carry_types"]
