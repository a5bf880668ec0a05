"""A model during editing: producers and consumers of values, their known types, and free names.

    graph = Graph(model)
    for scope in graph.scopes():
        for node in scope.nodes: ...
    graph.infer()                # types of what is new
    changed = graph.model()

A Graph lasts as long as the work does: a change touches what it changes. The model that it was made of stays as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import onnx

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer_new import first_free_symbol, infer_new
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope, all_nodes, all_scopes
from trtsmith.converter.graph.write_back import written_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.new_weights import NewWeights
from trtsmith.importers.registry import normalise_domain

T = TypeVar("T")


class Graph:
    """State that all graphs of a model share; `root` is the main graph.

    source:    the model that it was made of; its files hold the weights, and those that came since.
    weights:   where weights are written that come to the graph.
    used:      how often each value is read, by nodes, subgraphs or the graph's caller.
    readers:   the nodes that were made readers of a value; `readers_of` gives those that still are.
    names:     of values and nodes.
    unfolded:  nodes that constant folding has not seen yet.
    stale:     nodes that shape inference has not seen yet.
    folded:    values that are constants only since folding: by name, the operators that computed them.
    functions: (domain, name) of the functions that the model has.
    revision:  grows with every change.
    written:   how many nodes, and bytes of constants, rules unrolled: Writers keep it.
    """

    def __init__(self, model: Model) -> None:
        """Takes the types of values that the model states."""
        self.revision = 0
        self.weights = NewWeights()
        self.written: Counter[str] = Counter()
        self._derived: dict[Callable[[Graph], object], tuple[int, Any]] = {}
        self.become(model)

    def become(self, model: Model) -> None:
        """Replaces the model by the version that a whole-model tool made of it."""
        self.source = model
        self.revision += 1
        self.functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
        self.used: defaultdict[str, int] = defaultdict(int)
        self.readers: defaultdict[str, list[Node]] = defaultdict(list)
        self.names = FreshNames()
        self.unfolded: list[Node] = []
        self.stale: dict[Node, None] = {}
        self.folded: dict[str, frozenset[str]] = {}
        self.opsets = {normalise_domain(o.domain): int(o.version) for o in model.proto.opset_import}
        self._held = onnx.GraphProto()  # nodes, types and constants that came since, in one piece of memory
        self._symbols: int | None = None  # the number of the next one; found out when the first is asked for
        self._model: Model | None = model  # what `model` gives, until something changes
        self.root = Scope(model.proto.graph, self)

    def tensor(self, values: np.ndarray, name: str = "") -> onnx.TensorProto:
        """Makes the values a constant of this graph. Large ones are written to a file, so that copies of protos stay
        small.

        UsageError: no room for them.
        """
        return self.referring(self.weights.tensor(values, name))

    def referring(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """Registers the files of `weights` with this graph, and returns the tensor."""
        if not self.weights.files.keys() <= self.source.files.keys():
            self.source = replace(self.source, files={**self.source.files, **self.weights.files})
        return tensor

    def scopes(self) -> Iterator[Scope]:
        """Yields every graph, outer ones first."""
        return all_scopes(self.root)

    def nodes(self) -> Iterator[Node]:
        """Returns every node in order of evaluation; nodes of subgraphs follow their owner."""
        return all_nodes(self.root)

    def kinds(self) -> set[tuple[str, str]]:
        """Returns (domain, op_type) of all nodes."""
        return {(node.domain, node.op_type) for node in self.nodes()}

    def elem_types(self) -> set[int]:
        """Returns the onnx.TensorProto.DataType of every initializer and of every value whose type is known."""
        found: set[int] = set()
        for scope in self.scopes():
            for tensors in (scope.defaults, scope.tensors):
                found.update(tensor.data_type for tensor in tensors.values())
            found.update(value.type.tensor_type.elem_type for value in scope.types.values())
        return found

    def readers_of(self, name: str) -> Iterator[Node]:
        """Returns the nodes of all graphs that read the value themselves; not nodes whose subgraphs do."""
        return (node for node in self.readers[name] if not node.gone and name in node.inputs)

    def opset(self, domain: str) -> int:
        """Returns the version in which the model imports the domain; 1 unless it does."""
        return self.opsets.get(domain, 1)

    def import_domain(self, domain: str, version: int = 1) -> None:
        """Adds an opset import for the domain unless the model has one."""
        if domain not in self.opsets:
            self.opsets[domain] = version
            self.changed()

    def adopt(self, proto: onnx.NodeProto) -> onnx.NodeProto:
        """Copies a node into this graph's ownership."""
        copy: onnx.NodeProto = self._held.node.add()
        copy.CopyFrom(proto)
        return copy

    def adopt_value(self, value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
        """Copies a value's type into this graph's ownership."""
        copy: onnx.ValueInfoProto = self._held.value_info.add()
        copy.CopyFrom(value)
        return copy

    def adopt_tensor(self, tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
        """Copies a constant into this graph's ownership, under this name."""
        copy: onnx.TensorProto = self._held.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = name
        return copy

    def changed(self) -> None:
        """Marks `model` as out of date."""
        self._model = None
        self.revision += 1

    def changed_since(self, model: Model) -> bool:
        """Tells whether the graph has changed since `model` returned that object."""
        return self._model is not model

    def model(self) -> Model:
        """Returns the graph as a model, not to be edited; the original object if nothing has changed."""
        if self._model is None:
            self._model = written_model(self)
        return self._model

    def derived(self, make: Callable[[Graph], T]) -> T:
        """Caches the result of `make` until the graph changes."""
        known = self._derived.get(make)
        if known is None or known[0] != self.revision:
            known = self._derived[make] = self.revision, make(self)
        found: T = known[1]
        return found

    def infer(self) -> None:
        """Infers types of changed nodes and of those after them."""
        infer_new(self)

    def fresh_symbol(self) -> str:
        """Makes a name for an unknown size, as onnx writes them."""
        if self._symbols is None:
            self._symbols = first_free_symbol(self.source.proto)
        self._symbols += 1
        return f"unk__{self._symbols - 1}"

    def unique_name(self, node: Node) -> str:
        """Returns the node's name. A node without a name of its own gets one."""
        name = node.name
        if not name or self.names.nodes_called(name) > 1:
            name = self.names.node(node.label)
        return name

    def remove_dead(self, freed: Iterable[str], scope: Scope) -> None:
        """Removes nodes and initializers that nothing reads once `freed` are no longer read in `scope`."""
        queue = [(name, scope) for name in freed if name]
        touched: dict[Scope, None] = {}
        while queue:
            name, reader = queue.pop()
            if self.used[name] > 0:
                continue
            holder = reader.holder(name)
            if holder is None:
                continue
            if holder.tensors.pop(name, None) is not None:
                touched[holder] = None
            node = holder.producers.get(name)
            if node is None or node.gone or any(self.used[o] > 0 for o in node.outputs if o):
                continue
            holder.leave(node)
            touched[holder] = None
            queue.extend((read, holder) for read in node.reads())
        for holder in touched:
            holder.nodes = [node for node in holder.nodes if not node.gone]
            holder.touch()

    def make_stale(self, name: str) -> None:
        """Marks readers of the value for inference: it became a constant, or its type changed."""
        self.stale.update(dict.fromkeys(self.readers.get(name, ())))
