"""What is known of the values of a graph and of the graphs around it: types, constants, who makes and who reads them.

A name may be made once in each of two branches of an If, so that types and constants are looked up from the inside out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from converter.modelfile.model import Model
from importers.registry import normalise_domain

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


class Shared:
    """What all graphs of one model share: opsets, names that are taken, how often values are read."""

    def __init__(self, model: Model, unfolded: Model) -> None:
        self.model = model
        self._unfolded = unfolded
        self._given: set[str] | None = None
        self.functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
        self.used: Counter[str] = Counter()
        self.node_names: Counter[str] = Counter()
        self._opsets = {normalise_domain(o.domain): o.version for o in model.proto.opset_import}
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()
        for graph in all_graphs(model.proto.graph):
            self._taken.update(value.name for value in (*graph.input, *graph.initializer))
            self._taken.update(t.values.name for t in graph.sparse_initializer)
            self.used.update(value.name for value in graph.output)
            for node in graph.node:
                self._taken.update(node.output)
                self.used.update(node.input)
                self.node_names[node.name] += 1
        del self.used[""]

    def folded(self, name: str) -> bool:
        """Whether a constant is one only since folding: the graph that TensorRT would get computes it."""
        if self._given is None:
            graph = self._unfolded.proto.graph
            self._given = {tensor.name for tensor in graph.initializer}
            for node in graph.node:
                if node.op_type == "Constant":
                    self._given.update(node.output)
            self._given |= {
                name for node in graph.node for inner in subgraphs(node) for name in _constants_inside(inner)
            }
        return name not in self._given

    def opset(self, domain: str) -> int:
        """Version of the domain that the model imports; 1 for one that it does not."""
        return int(self._opsets.get(domain, 1))

    def fresh(self, wanted: str) -> str:
        """A value name like `wanted` that nothing has; taken from now on."""
        name = wanted
        while name in self._taken:
            self._numbers[wanted] += 1
            name = f"{wanted}_{self._numbers[wanted]}"
        self._taken.add(name)
        return name

    def fresh_node(self, wanted: str) -> str:
        """A node name like `wanted` that no node has; taken from now on."""
        name = wanted
        while self.node_names[name]:
            self._numbers["node " + wanted] += 1
            name = f"{wanted}_{self._numbers['node ' + wanted]}"
        self.node_names[name] += 1
        return name


def _constants_inside(graph: onnx.GraphProto) -> Iterator[str]:
    for part in all_graphs(graph):
        yield from (tensor.name for tensor in part.initializer)
        yield from (name for node in part.node if node.op_type == "Constant" for name in node.output)


class Scope:
    """The values of one graph; those of the graphs around it through `outer`."""

    def __init__(self, graph: onnx.GraphProto, shared: Shared, outer: Scope | None = None) -> None:
        self.shared = shared
        self._outer = outer
        self._tensors: dict[str, onnx.TensorProto] = {}
        self._producers: dict[str, onnx.NodeProto] = {}
        self._types = {v.name: v for v in (*graph.value_info, *graph.output, *graph.input)}
        fed = {value.name for value in graph.input}
        for tensor in graph.initializer:
            if tensor.name not in fed:  # else a default that the caller may replace
                self._tensors[tensor.name] = tensor
        for node in graph.node:
            for name in node.output:
                if name:
                    self._producers[name] = node

    def _holder(self, name: str) -> Scope | None:
        """The innermost scope that makes or is given the value."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._producers or name in scope._tensors or name in scope._types:
                return scope
            scope = scope._outer
        return None

    def type_proto(self, name: str) -> onnx.TypeProto | None:
        scope = self._holder(name) if name else None
        if scope is None:
            return None
        tensor = scope._tensors.get(name)
        if tensor is not None:
            return helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        value = scope._types.get(name)
        return None if value is None else value.type

    def dtype(self, name: str) -> str | None:
        type_ = self.type_proto(name)
        if type_ is None or not type_.HasField("tensor_type") or not type_.tensor_type.elem_type:
            return None
        if type_.tensor_type.elem_type == onnx.TensorProto.STRING:
            return "string"
        return str(helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type))

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        type_ = self.type_proto(name)
        if type_ is None or not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
            return None
        return tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or None
            for d in type_.tensor_type.shape.dim
        )

    def producer(self, name: str) -> onnx.NodeProto | None:
        scope = self._holder(name) if name else None
        return None if scope is None else scope._producers.get(name)

    def is_constant(self, name: str) -> bool:
        scope = self._holder(name) if name else None
        if scope is None:
            return False
        node = scope._producers.get(name)
        return name in scope._tensors or (node is not None and _is_constant(node))

    def constant(self, name: str) -> np.ndarray | None:
        scope = self._holder(name) if name else None
        if scope is None:
            return None
        tensor = scope._tensors.get(name)
        if tensor is not None:
            return self.shared.model.array(tensor)
        node = scope._producers.get(name)
        return constant_value(node, self.shared.model) if node is not None else None


def _is_constant(node: onnx.NodeProto) -> bool:
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
    if not _is_constant(node):
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return model.array(attribute.t)
    return np.array(helper.get_attribute_value(attribute), _VALUES[attribute.name])
