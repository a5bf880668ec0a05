"""A model while rules and folding change it: what is known of its values, who makes and who reads them.

A name may be made once in each of two branches of an If, so that types and constants are looked up from the inside out.
A Draft lasts as long as the work does: a change touches what it changes, and only shape inference sees all nodes again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.registry import normalise_domain

Dim = int | str | None
"""One size: a number, a symbol of shape inference, or unknown."""


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node carries."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and every subgraph, outer ones first."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from all_graphs(inner)


def elem_types(graph: onnx.GraphProto) -> set[int]:
    """onnx.TensorProto.DataType of every initializer and of every value whose type is known, inner graphs' among them."""
    found: set[int] = set()
    for part in all_graphs(graph):
        found.update(tensor.data_type for tensor in part.initializer)
        values = (*part.input, *part.value_info, *part.output)
        found.update(value.type.tensor_type.elem_type for value in values)
    return found


class Node:
    """A node of a draft: its proto, what is asked of it all the time, and the scopes of its subgraphs."""

    __slots__ = ("domain", "gone", "inputs", "op_type", "outputs", "proto", "scope", "scopes")

    def __init__(self, proto: onnx.NodeProto, scope: Scope) -> None:
        self.proto = proto
        self.op_type: str = proto.op_type
        self.domain = normalise_domain(proto.domain)
        self.inputs = tuple(proto.input)
        self.outputs = tuple(proto.output)
        self.scope = scope
        self.scopes: tuple[Scope, ...] = ()
        self.gone = False


def reads(node: Node) -> Iterator[str]:
    """The values that a node reads, those that its subgraphs read among them."""
    yield from filter(None, node.inputs)
    for scope in node.scopes:
        yield from scope.outputs
        for inner in scope.nodes:
            yield from reads(inner)


def live_scopes(node: Node) -> tuple[Scope, ...]:
    """The subgraphs of a node without the branch of an If that a given constant rules out: TensorRT does not read it."""
    if node.op_type != "If" or node.domain or node.inputs[0] in node.scope.draft.folded:
        return node.scopes
    condition = node.scope.constant(node.inputs[0])
    if condition is None:
        return node.scopes
    name = branch_of(condition)
    graphs = [a.name for a in node.proto.attribute if a.type in _GRAPHS]
    return tuple(scope for scope, kind in zip(node.scopes, graphs, strict=True) if kind == name)


def branch_of(condition: np.ndarray) -> str:
    """The attribute of an If that is run for a condition."""
    return "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"


class Draft:
    """A model that is being changed, as a copy of its own; and what all its graphs share.

    used:       how often each value is read, by nodes, subgraphs or the graph's caller.
    readers:    the nodes that read a value; those that are gone among them.
    unfolded:   nodes that constant folding has not seen yet.
    names:      of values and nodes.
    folded:     values that are constants only since folding: by name, the operators that computed them.
    functions:  (domain, name) of the functions that the model carries.
    """

    def __init__(self, model: Model) -> None:
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        self.source = model
        self.functions = {(normalise_domain(f.domain), f.name) for f in proto.functions}
        self.used: Counter[str] = Counter()
        self.readers: defaultdict[str, list[Node]] = defaultdict(list)
        self.names = FreshNames()
        self.unfolded: list[Node] = []
        self.folded: dict[str, frozenset[str]] = {}
        self._opsets = {normalise_domain(o.domain): o.version for o in proto.opset_import}
        self._proto = proto
        self._model: Model | None = model  # what `model` gives, until something changes
        self.root = Scope(proto.graph, self)

    def opset(self, domain: str) -> int:
        """Version of the domain that the model imports; 1 for one that it does not."""
        return int(self._opsets.get(domain, 1))

    def import_domain(self, domain: str) -> None:
        """Lets nodes of the domain in; version 1 of it if the model does not import it yet."""
        if domain not in self._opsets:
            self._opsets[domain] = 1
            self._proto.opset_import.append(helper.make_opsetid(domain, 1))

    def changed(self) -> None:
        """`model` has to be written again."""
        self._model = None

    def model(self) -> Model:
        """The draft as a model. Types of values are those of the last `infer`."""
        if self._model is None:
            proto = onnx.ModelProto()
            for field, value in self._proto.ListFields():
                if field.name != "graph":
                    _assign(proto, field, value)
            self.root.write_inner()
            self.root.write(proto.graph)
            self._model = self.source.with_proto(proto)
        return self._model

    def infer(self) -> Model:
        """Shape inference over the whole draft, so that scopes know the types of new values."""
        self._model = infer_shapes(self.model())
        self.root.read_types(self._model.proto.graph)
        return self._model

    def remove_dead(self, freed: Iterable[str], scope: Scope) -> None:
        """Takes out the nodes and initializers of which `freed`, once read in `scope`, were the last uses."""
        queue = [(name, scope) for name in freed if name]
        touched: dict[Scope, None] = {}
        while queue:
            name, reader = queue.pop()
            holder = reader.holder(name)
            if holder is None or self.used[name] > 0:
                continue
            if holder.tensors.pop(name, None) is not None:
                touched[holder] = None
            node = holder.producers.get(name)
            if node is None or node.gone or node.scopes or any(self.used[o] > 0 for o in node.outputs if o):
                continue
            holder.leave(node)
            touched[holder] = None
            queue.extend((read, holder) for read in node.inputs if read)
        for holder in touched:
            holder.nodes = [node for node in holder.nodes if not node.gone]
            holder.rewritten = True
            self.changed()


class Scope:
    """One graph of a draft: its nodes and values; those of the graphs around it through `outer`.

    nodes: in order. tensors: initializers that are constants, by name. producers: who makes a value of this graph.
    rewritten: whether its proto has to be written anew.
    """

    def __init__(self, graph: onnx.GraphProto, draft: Draft, outer: Scope | None = None) -> None:
        self.graph = graph
        self.draft = draft
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.tensors: dict[str, onnx.TensorProto] = {}
        self.producers: dict[str, Node] = {}
        self.inputs = {value.name for value in graph.input}
        self.outputs = {value.name for value in graph.output}
        self.types: dict[str, onnx.ValueInfoProto] = {}
        self._defaults: list[onnx.TensorProto] = []  # of inputs: a caller may replace them
        self.rewritten = False
        self._read_own_types(graph)
        for tensor in graph.initializer:
            if tensor.name in self.inputs:
                self._defaults.append(tensor)
            else:
                self.tensors[tensor.name] = tensor
        draft.names.take(self.inputs)
        draft.names.take(self.tensors)
        draft.names.take(t.values.name for t in graph.sparse_initializer)
        draft.used.update(value.name for value in graph.output)
        draft.names.nodes.update(proto.name for proto in graph.node)
        self.nodes = [self.enter(proto) for proto in graph.node]

    def enter(self, proto: onnx.NodeProto) -> Node:
        """A node of this graph for the proto, counted as a maker and reader; where it stands is the caller's business."""
        node, draft = Node(proto, self), self.draft
        for name in node.inputs:
            if name:
                draft.used[name] += 1
                draft.readers[name].append(node)
        for name in node.outputs:
            if name:
                self.producers[name] = node
        draft.names.take(node.outputs)
        draft.unfolded.append(node)
        if any(a.type in _GRAPHS for a in proto.attribute):
            node.scopes = tuple(Scope(graph, draft, self) for graph in subgraphs(proto))
        return node

    def leave(self, node: Node) -> None:
        """The node is gone, and what its subgraphs have: nothing of it is read or made any more."""
        node.gone = True
        draft = self.draft
        draft.used.subtract(name for name in node.inputs if name)
        for name in node.outputs:
            if self.producers.get(name) is node:
                del self.producers[name]
        for inner in node.scopes:
            draft.used.subtract(inner.outputs)
            for held in inner.nodes:
                inner.leave(held)

    def replace(self, replacements: Mapping[Node, list[Node]]) -> None:
        """Nodes of this graph by others, in their places. The others were entered already."""
        self.nodes = [new for old in self.nodes for new in replacements.get(old, (old,))]
        self.rewritten = True
        self.draft.changed()

    def add_tensor(self, tensor: onnx.TensorProto) -> None:
        self.tensors[tensor.name] = tensor
        self.draft.changed()

    def holder(self, name: str) -> Scope | None:
        """The innermost scope that makes or is given the value."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.producers or name in scope.tensors or name in scope.inputs:
                return scope
            scope = scope.outer
        return None

    def type_proto(self, name: str) -> onnx.TypeProto | None:
        scope = self.holder(name) if name else None
        if scope is None:
            return None
        tensor = scope.tensors.get(name)
        if tensor is not None:
            return helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        value = scope.types.get(name)
        return None if value is None else value.type

    def elem_type(self, name: str) -> int:
        """onnx.TensorProto.DataType of a value; 0 if unknown."""
        scope = self.holder(name) if name else None
        if scope is None:
            return 0
        if name in scope.tensors:
            return int(scope.tensors[name].data_type)
        value = scope.types.get(name)
        if value is None or not value.type.HasField("tensor_type"):
            return 0
        return int(value.type.tensor_type.elem_type)

    def dtype(self, name: str) -> str | None:
        elem_type = self.elem_type(name)
        if elem_type == onnx.TensorProto.STRING:
            return "string"
        return dtype_name(elem_type) if elem_type else None

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        scope = self.holder(name) if name else None
        if scope is None:
            return None
        if name in scope.tensors:
            return tuple(scope.tensors[name].dims)
        value = scope.types.get(name)
        if value is None or not value.type.HasField("tensor_type"):
            return None
        type_ = value.type.tensor_type
        if not type_.HasField("shape"):
            return None
        return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in type_.shape.dim)

    def producer(self, name: str) -> onnx.NodeProto | None:
        scope = self.holder(name) if name else None
        node = scope.producers.get(name) if scope is not None else None
        return None if node is None else node.proto

    def is_constant(self, name: str) -> bool:
        scope = self.holder(name) if name else None
        if scope is None:
            return False
        node = scope.producers.get(name)
        return name in scope.tensors or (node is not None and is_constant_node(node.proto))

    def constant(self, name: str) -> np.ndarray | None:
        scope = self.holder(name) if name else None
        if scope is None:
            return None
        tensor = scope.tensors.get(name)
        if tensor is not None:
            return self.draft.source.array(tensor)
        node = scope.producers.get(name)
        return constant_value(node.proto, self.draft.source) if node is not None else None

    def read_types(self, inferred: onnx.GraphProto) -> None:
        """Types from this graph after inference, which has the same nodes in the same order; subgraphs too."""
        self._read_own_types(inferred)
        for index, node in enumerate(self.nodes):
            if node.scopes:
                for scope, graph in zip(node.scopes, subgraphs(inferred.node[index]), strict=True):
                    scope.read_types(graph)

    def _read_own_types(self, graph: onnx.GraphProto) -> None:
        self.types = {v.name: v for v in (*graph.value_info, *graph.output, *graph.input)}

    def write(self, graph: onnx.GraphProto) -> None:
        """This graph, as it is now, into an empty GraphProto."""
        for field, value in self.graph.ListFields():
            if field.name not in _WRITTEN:
                _assign(graph, field, value)
        graph.node.extend(node.proto for node in self.nodes)
        graph.initializer.extend(self._defaults)
        graph.initializer.extend(self.tensors.values())
        inputs, outputs = self.inputs, self.outputs
        for name, value in self.types.items():
            if name in self.producers and name not in outputs and name not in inputs:
                graph.value_info.append(value)
        graph.output.extend(self.types[value.name] for value in self.graph.output)

    def write_inner(self) -> None:
        """Brings the protos of nodes that have subgraphs up to date with their scopes."""
        for node in self.nodes:
            for scope in node.scopes:
                scope.write_inner()
                if scope.rewritten:
                    scope._write_back()

    def _write_back(self) -> None:
        graph = onnx.GraphProto()
        self.write(graph)
        self.graph.CopyFrom(graph)
        self.rewritten = False
        # The nodes' protos were those of the graph before the copy; the ones of now are others.
        for node, proto in zip(self.nodes, self.graph.node, strict=True):
            node.proto = proto
            for scope, inner in zip(node.scopes, subgraphs(proto), strict=True):
                scope._rebind(inner)

    def _rebind(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        for node, proto in zip(self.nodes, graph.node, strict=True):
            node.proto = proto
            for scope, inner in zip(node.scopes, subgraphs(proto), strict=True):
                scope._rebind(inner)


def all_scopes(scope: Scope) -> Iterator[Scope]:
    """The graph and every graph inside it, outer ones first."""
    yield scope
    for node in scope.nodes:
        for inner in node.scopes:
            yield from all_scopes(inner)


_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_WRITTEN = frozenset({"node", "initializer", "value_info", "output"})
"""Fields of a GraphProto that `Scope.write` makes; the others are copied."""


def _assign(message: Any, field: Any, value: Any) -> None:
    """Set a field of a protobuf message to a value of another message's field of the same kind."""
    target = getattr(message, field.name)
    if hasattr(target, "extend"):
        target.extend(value)
    elif field.message_type is not None:
        target.CopyFrom(value)
    else:
        setattr(message, field.name, value)


def is_constant_node(node: onnx.NodeProto) -> bool:
    """Whether the node is a Constant of numbers."""
    return (
        node.op_type == "Constant" and not normalise_domain(node.domain) and node.attribute[0].name in _VALUES
    )


_VALUES: Mapping[str, Any] = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def constant_value(node: onnx.NodeProto, model: Model) -> np.ndarray | None:
    """What a Constant node makes; None for other nodes, strings and sparse tensors."""
    if not is_constant_node(node):
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return model.array(attribute.t)
    return np.array(helper.get_attribute_value(attribute), _VALUES[attribute.name])
