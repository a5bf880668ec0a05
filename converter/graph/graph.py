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
    """What all graphs of a model share, and the main one as `root`.

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
        """Types of values are those that the model states."""
        self.revision = 0
        self.weights = NewWeights()
        self.written: Counter[str] = Counter()
        self._derived: dict[Callable[[Graph], object], tuple[int, Any]] = {}
        self.become(model)

    def become(self, model: Model) -> None:
        """Goes on with another model: what a tool for whole models has made of this one."""
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
        """The values as a constant of this graph. Weights are written to a file, and no copy of a proto copies them.

        UsageError: no room for them.
        """
        return self.referring(self.weights.tensor(values, name))

    def referring(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """The tensor, with which the files of `weights` are files of this graph."""
        if not self.weights.files.keys() <= self.source.files.keys():
            self.source = replace(self.source, files={**self.source.files, **self.weights.files})
        return tensor

    def scopes(self) -> Iterator[Scope]:
        """Every graph, outer ones first."""
        return all_scopes(self.root)

    def nodes(self) -> Iterator[Node]:
        """Every node, those of its graphs behind it: in the order of evaluation."""
        return all_nodes(self.root)

    def kinds(self) -> set[tuple[str, str]]:
        """(domain, op_type) of all nodes."""
        return {(node.domain, node.op_type) for node in self.nodes()}

    def elem_types(self) -> set[int]:
        """onnx.TensorProto.DataType of every initializer and of every value whose type is known."""
        found: set[int] = set()
        for scope in self.scopes():
            for tensors in (scope.defaults, scope.tensors):
                found.update(tensor.data_type for tensor in tensors.values())
            found.update(value.type.tensor_type.elem_type for value in scope.types.values())
        return found

    def readers_of(self, name: str) -> Iterator[Node]:
        """The nodes of any graph that read a value of that name; not those whose subgraphs alone do."""
        return (node for node in self.readers[name] if not node.gone and name in node.inputs)

    def opset(self, domain: str) -> int:
        """Version of the domain that the model imports; 1 for one that it does not."""
        return self.opsets.get(domain, 1)

    def import_domain(self, domain: str, version: int = 1) -> None:
        """Lets nodes of the domain in; in that version if the model does not import it yet."""
        if domain not in self.opsets:
            self.opsets[domain] = version
            self.changed()

    def adopt(self, proto: onnx.NodeProto) -> onnx.NodeProto:
        """A copy that belongs to this graph."""
        copy: onnx.NodeProto = self._held.node.add()
        copy.CopyFrom(proto)
        return copy

    def adopt_value(self, value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
        """The same of what is known of a value."""
        copy: onnx.ValueInfoProto = self._held.value_info.add()
        copy.CopyFrom(value)
        return copy

    def adopt_tensor(self, tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
        """The same of a constant, under this name."""
        copy: onnx.TensorProto = self._held.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = name
        return copy

    def changed(self) -> None:
        """`model` has to be written again."""
        self._model = None
        self.revision += 1

    def changed_since(self, model: Model) -> bool:
        """Whether anything has changed since `model` gave that one."""
        return self._model is not model

    def model(self) -> Model:
        """The graph as a model; the one that it was made of if nothing has changed. To be read only."""
        if self._model is None:
            self._model = written_model(self)
        return self._model

    def derived(self, make: Callable[[Graph], T]) -> T:
        """What `make` finds in the graph as it is now: made once, and again when something has changed."""
        known = self._derived.get(make)
        if known is None or known[0] != self.revision:
            known = self._derived[make] = self.revision, make(self)
        found: T = known[1]
        return found

    def infer(self) -> None:
        """Shape inference where something has changed, and behind it."""
        infer_new(self)

    def fresh_symbol(self) -> str:
        """A name for an unknown size, as onnx writes them."""
        if self._symbols is None:
            self._symbols = first_free_symbol(self.source.proto)
        self._symbols += 1
        return f"unk__{self._symbols - 1}"

    def unique_name(self, node: Node) -> str:
        """The node's name; another one, which is its own from then on, if it has none or shares it."""
        name = node.name
        if not name or self.names.nodes_called(name) > 1:
            name = self.names.node(node.label)
        return name

    def remove_dead(self, freed: Iterable[str], scope: Scope) -> None:
        """Takes out the nodes and initializers of which `freed`, once read in `scope`, were the last uses."""
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
            if node is None or node.gone or node.scopes or any(self.used[o] > 0 for o in node.outputs if o):
                continue
            holder.leave(node)
            touched[holder] = None
            queue.extend((read, holder) for read in node.inputs if read)
        for holder in touched:
            holder.nodes = [node for node in holder.nodes if not node.gone]
            holder.touch()

    def make_stale(self, name: str) -> None:
        """What reads the value is inferred again: it became a constant, or its type changed."""
        self.stale.update(dict.fromkeys(self.readers.get(name, ())))
