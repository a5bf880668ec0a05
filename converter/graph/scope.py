"""One graph of a model during editing: its nodes, its values, and the editing operations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx

from trtsmith.converter.graph.constant_nodes import branch_of, constant_value, is_constant_node
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.tensor_types import Dim, dims_of, type_of_tensor
from trtsmith.converter.graph.walk import graph_attributes, may_have_graphs, subgraphs
from trtsmith.converter.graph.write_back import up_to_date
from trtsmith.importers.dtypes import dtype_name

if TYPE_CHECKING:
    from trtsmith.converter.graph.graph import Graph


class Scope:
    """One graph. Values of enclosing graphs are found through `outer`.

    Protos are to be read. A name may be made once in each of two branches of an If, so that types and constants are
    looked up from the inside out.

    graph:     the proto that it was made from, with name and documentation.
    owner:     the node that holds it; None for the model's main graph.
    nodes:     in order.
    inputs:    names of graph inputs, in order.
    results:   names of graph outputs, in order; `outputs` are the same as a set.
    tensors:   initializers that are constants, by name.
    defaults:  initializers of inputs, which a caller may replace.
    producers: who makes a value of this graph.
    types:     by value name, as far as they are known.
    changed:   whether it was changed since it was last written into a proto.
    """

    __slots__ = (
        "changed",
        "defaults",
        "depth",
        "graph",
        "inputs",
        "nodes",
        "outer",
        "outputs",
        "owner",
        "producers",
        "results",
        "tensors",
        "types",
        "whole",
    )

    def __init__(self, graph: onnx.GraphProto, whole: Graph, owner: Node | None = None) -> None:
        self.graph = graph
        self.whole = whole
        self.owner = owner
        self.outer: Scope | None = owner.scope if owner is not None else None
        self.depth: int = 0 if self.outer is None else self.outer.depth + 1
        self.inputs = {value.name: None for value in graph.input}
        self.results = [value.name for value in graph.output]
        self.outputs = set(self.results)
        self.tensors: dict[str, onnx.TensorProto] = {}
        self.defaults: dict[str, onnx.TensorProto] = {}
        self.producers: dict[str, Node] = {}
        self.types: dict[str, onnx.ValueInfoProto] = {}
        self.changed = False
        self.read_own_types(graph)
        for tensor in graph.initializer:
            held = self.defaults if tensor.name in self.inputs else self.tensors
            held[tensor.name] = tensor
        names = whole.names
        names.take(self.inputs)
        names.take(self.tensors)
        names.take(tensor.values.name for tensor in graph.sparse_initializer)
        for name in self.results:
            whole.used[name] += 1
        self.nodes = [self._enter(proto, own=False) for proto in graph.node]
        if owner is not None:
            for name in self.results:  # a graph may return a value of a graph around it
                whole.readers[name].append(owner)

    # who makes, who reads

    def holder(self, name: str) -> Scope | None:
        """Returns the innermost scope that defines the value."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.producers or name in scope.tensors or name in scope.inputs:
                return scope
            scope = scope.outer
        return None

    def maker(self, name: str) -> Node | None:
        """Returns the node that makes the value, in this graph or an enclosing one; None for inputs and initializers."""
        scope = self.holder(name) if name else None
        return scope.producers.get(name) if scope is not None else None

    def producer(self, name: str) -> onnx.NodeProto | None:
        """Returns the proto of `maker`."""
        node = self.maker(name)
        return None if node is None else up_to_date(node)

    # types and constants

    def value(self, name: str) -> onnx.ValueInfoProto | None:
        """Returns type and shape of a value that is not an initializer."""
        scope = self.holder(name) if name else None
        return None if scope is None else scope.types.get(name)

    def type_proto(self, name: str) -> onnx.TypeProto | None:
        scope = self.holder(name) if name else None
        if scope is None:
            return None
        tensor = scope.tensors.get(name)
        if tensor is not None:
            return type_of_tensor(tensor)
        value = scope.types.get(name)
        return None if value is None else value.type

    def elem_type(self, name: str) -> int:
        """Returns the onnx.TensorProto.DataType of a value; 0 if unknown."""
        scope = self.holder(name) if name else None
        if scope is None:
            return 0
        if name in scope.tensors:
            return int(scope.tensors[name].data_type)
        value = scope.types.get(name)
        return 0 if value is None else int(value.type.tensor_type.elem_type)

    def dtype(self, name: str) -> str | None:
        """Returns the element type, as "float32" or "string"; None if unknown."""
        elem_type = self.elem_type(name)
        if elem_type == onnx.TensorProto.STRING:
            return "string"
        return dtype_name(elem_type) if elem_type else None

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """Returns the dimensions of a value; None for an unknown rank."""
        scope = self.holder(name) if name else None
        if scope is None:
            return None
        if name in scope.tensors:
            return tuple(scope.tensors[name].dims)
        value = scope.types.get(name)
        return None if value is None else dims_of(value.type)

    def is_constant(self, name: str) -> bool:
        scope = self.holder(name) if name else None
        if scope is None:
            return False
        if name in scope.tensors:
            return True
        node = scope.producers.get(name)
        return node is not None and node.op_type == "Constant" and is_constant_node(node.proto)

    def constant(self, name: str) -> np.ndarray | None:
        """Returns the value of a constant, read-only; None for others."""
        scope = self.holder(name) if name else None
        if scope is None:
            return None
        tensor = scope.tensors.get(name)
        if tensor is not None:
            return self.whole.source.array(tensor)
        node = scope.producers.get(name)
        return constant_value(node.proto, self.whole.source) if node is not None else None

    # changes

    def touch(self) -> None:
        """Marks this graph and those around it as out of date."""
        self.changed = True
        self.whole.changed()

    def enter(self, proto: onnx.NodeProto, adopted: bool = False) -> Node:
        """Registers a copy of the proto as a node of this graph. The caller places it.

        adopted: whether the proto is such a copy, of `Graph.adopt`.
        """
        return self._enter(proto if adopted else self.whole.adopt(proto), own=True)

    def leave(self, node: Node) -> None:
        """Unregisters the node and its subgraphs: they no longer read or make values."""
        node.gone = True
        self.whole.names.uncount_node(node.name)
        used = self.whole.used
        for name in node.inputs:
            if name:
                used[name] -= 1
        for name in node.outputs:
            if name and self.producers.get(name) is node:
                del self.producers[name]
        for inner in node.scopes:
            for name in inner.results:
                used[name] -= 1
            for held in inner.nodes:
                inner.leave(held)

    def replace(self, replacements: Mapping[Node, Sequence[Node]]) -> None:
        """Puts entered nodes in the places of nodes that have left."""
        self.nodes = [new for old in self.nodes for new in replacements.get(old, (old,))]
        self.touch()

    def rebuild(self, items: Iterable[Node | onnx.NodeProto]) -> None:
        """Replaces this graph's nodes by a list of its own nodes and of protos to copy."""
        items = list(items)
        if items == self.nodes:
            return
        kept = {item for item in items if isinstance(item, Node)}
        for node in self.nodes:
            if node not in kept:
                self.leave(node)
        self.nodes = [item if isinstance(item, Node) else self.enter(item) for item in items]
        self.touch()

    def rewire(
        self, node: Node, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> None:
        """Changes the inputs or outputs of a node of this graph, and their number if need be."""
        whole, proto = self.whole, node.edit()
        if inputs is not None:
            for name in node.inputs:
                if name:
                    whole.used[name] -= 1
            proto.input[:] = inputs
            node.inputs = tuple(inputs)
            self._count_reads(node)
        if outputs is not None:
            for name in node.outputs:
                if name and self.producers.get(name) is node:
                    del self.producers[name]
            proto.output[:] = outputs
            node.outputs = tuple(outputs)
            self._count_makes(node)
        whole.unfolded.append(node)
        whole.stale[node] = None

    def set_result(self, position: int, name: str) -> None:
        """Makes the graph return another value, with the old one's type if its own is unknown."""
        old = self.results[position]
        self.whole.used[old] -= 1
        self.whole.used[name] += 1
        self.results[position] = name
        self.outputs = set(self.results)
        if name not in self.types and old in self.types:
            value = self.whole.adopt_value(self.types[old])
            value.name = name
            self.types[name] = value
        self.touch()

    def set_tensor(self, tensor: onnx.TensorProto) -> None:
        """Adds an initializer, or replaces the one of that name."""
        held = self.defaults if tensor.name in self.inputs else self.tensors
        held[tensor.name] = tensor
        self.whole.names.take((tensor.name,))
        self.touch()

    def drop_tensor(self, name: str) -> bool:
        """Removes a constant. Returns whether there was one of that name."""
        if self.tensors.pop(name, None) is None:
            return False
        self.touch()
        return True

    def set_type(self, name: str, type_: onnx.TypeProto) -> None:
        """Sets the type of a value of this graph that is not an initializer."""
        value = self.whole.adopt_value(self.types.get(name) or onnx.ValueInfoProto())
        value.name = name
        value.type.CopyFrom(type_)
        self.types[name] = value
        self.touch()

    def set_elem_type(self, name: str, elem_type: int) -> None:
        """Sets a tensor's element type, if its type is known."""
        known = self.types.get(name)
        if known is not None and known.type.tensor_type.elem_type != elem_type:
            type_ = onnx.TypeProto()
            type_.CopyFrom(known.type)
            type_.tensor_type.elem_type = elem_type
            self.set_type(name, type_)

    def read_own_types(self, graph: onnx.GraphProto) -> None:
        """Reads the types of this graph's values, not of inner graphs, from a proto that inference returned."""
        self.types = {sys.intern(v.name): v for v in (*graph.value_info, *graph.output, *graph.input)}

    def _enter(self, proto: onnx.NodeProto, own: bool) -> Node:
        node, whole = Node(proto, self, own), self.whole
        self._count_reads(node)
        self._count_makes(node)
        whole.unfolded.append(node)
        if own:
            whole.stale[node] = None
        whole.names.count_node(proto.name)
        if may_have_graphs(node.op_type, node.domain):
            node.scopes = tuple(Scope(graph, whole, node) for graph in subgraphs(proto))
        return node

    def _count_reads(self, node: Node) -> None:
        used, readers = self.whole.used, self.whole.readers
        for name in node.inputs:
            if name:
                used[name] += 1
                readers[name].append(node)

    def _count_makes(self, node: Node) -> None:
        for name in node.outputs:
            if name:
                self.producers[name] = node
        self.whole.names.take(node.outputs)


def all_scopes(scope: Scope) -> Iterator[Scope]:
    """Yields this graph and all graphs inside it, outer ones first."""
    yield scope
    for node in scope.nodes:
        for inner in node.scopes:
            yield from all_scopes(inner)


def all_nodes(scope: Scope) -> Iterator[Node]:
    """Yields every node in order of evaluation; nodes of subgraphs follow their owner."""
    for node in scope.nodes:
        yield node
        for inner in node.scopes:
            yield from all_nodes(inner)


def live_scopes(node: Node) -> tuple[Scope, ...]:
    """Returns the subgraphs of a node, without an If's branch that a constant rules out: TensorRT does not read it."""
    if node.op_type != "If" or node.domain or node.inputs[0] in node.scope.whole.folded:
        return node.scopes
    condition = node.scope.constant(node.inputs[0])
    if condition is None:
        return node.scopes
    wanted = branch_of(condition)
    names = graph_attributes(node.proto)
    return tuple(scope for scope, name in zip(node.scopes, names, strict=True) if name == wanted)
