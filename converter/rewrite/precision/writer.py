"""Writes the chosen types into a graph: Casts only at borders of regions, each value at most once per type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.engine.node_rule import constant_node
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.precision.ports import Ports
from trtsmith.converter.rewrite.precision.regions import Place, is_cast, place_of
from trtsmith.importers.dtypes import dtype_name

_PORTLESS = Ports()


class PrecisionWriter:
    """Writes one graph. `casts` counts inserted Casts, `dropped` the model's own Casts that became unnecessary."""

    def __init__(
        self,
        graph: Graph,
        fmt: Format,
        ports: Mapping[Node, Ports],
        reduced: Mapping[Node, bool],
        weights: Converted,
        reduced_io: bool,
    ) -> None:
        self.casts = self.dropped = 0
        self._graph, self._fmt, self._ports, self._reduced = graph, fmt, ports, reduced
        self._weights, self._reduced_io = weights, reduced_io
        self._home: dict[Place, int] = {}  # float32 values of the model: the type that they are made in now
        self._made_as: dict[Place, str] = {}  # where that is under another name
        self._found: dict[tuple[Place, int], str] = {}  # their names in other types
        self._same: dict[Place, str] = {}  # values of other types that are another value now
        self._lazy: dict[Place, str] = {}  # what a Cast made float32 of: written only if somebody asks
        self._asked: set[Place] = set()  # values that somebody reads in float32
        self._converted: dict[Place, None] = {}
        # what becomes of the nodes; the graph is changed when all is decided
        self._inputs: dict[Node, list[str]] = {}
        self._outputs: dict[Node, list[str]] = {}
        self._renamed: dict[Place, Node] = {}  # by value that has another name now, who makes it
        self._identities: dict[Node, onnx.NodeProto] = {}  # by node, what takes its place
        self._after: defaultdict[Scope, dict[Node | None, list[onnx.NodeProto]]] = defaultdict(dict)
        self._gone: set[Node] = set()

    def write(self) -> None:
        """Edits the graph's nodes, initializers and known types."""
        self._scope(self._graph.root)
        self._drop_unread()
        for node in {**self._inputs, **self._outputs}:
            node.scope.rewire(node, self._inputs.get(node), self._outputs.get(node))
        for scope in {**self._after, **{node.scope: None for node in (*self._gone, *self._identities)}}:
            scope.rebuild(self._items(scope))

    def _scope(self, scope: Scope) -> None:
        for name in scope.inputs:
            if scope.elem_type(name) == T.FLOAT:
                reduced = self._reduced_io and scope.outer is None
                self._becomes((scope, name), self._fmt.elem if reduced else T.FLOAT)
        for node in scope.nodes:
            if is_cast(node):
                self._cast(node)
            else:
                self._node(node)
            for inner in node.scopes:
                self._scope(inner)
        self._results(scope)

    def _node(self, node: Node) -> None:
        ports, scope = self._ports.get(node, _PORTLESS), node.scope
        elem = self._fmt.elem if self._reduced.get(node, False) else T.FLOAT
        floats = [i for i, name in enumerate(node.outputs) if name and scope.elem_type(name) == T.FLOAT]
        for index, name in enumerate(node.inputs):
            if name:
                self._reads(node, index, self._read(scope, name, elem if index in ports.inputs else T.FLOAT))
        for index in floats:
            made = elem if index in ports.outputs else T.FLOAT
            self._becomes((scope, node.outputs[index]), made)
            self._edge(node, index, made)

    def _reads(self, node: Node, index: int, name: str) -> None:
        """The node's input is that value from now on."""
        if name != node.inputs[index]:
            self._inputs.setdefault(node, list(node.inputs))[index] = name

    def _cast(self, node: Node) -> None:
        """A Cast of the model takes its input as it comes, and one to float32 is written only if somebody reads that."""
        scope, (source, *_), (target, *_) = node.scope, node.inputs, node.outputs
        to = next(int(a.i) for a in node.proto.attribute if a.name == "to")
        place, own = place_of(scope, source), (scope, target)
        if place not in self._home and not scope.is_constant(source):  # it was no float32 before
            source = self._same.get(place, source)
            self._reads(node, 0, source)
            if to == T.FLOAT:
                self._becomes(own, T.FLOAT)
                self._lazy[own] = source
                if scope.elem_type(source) == self._fmt.elem:
                    self._found[own, self._fmt.elem] = source
                self._edge(node, 0, T.FLOAT)
            return
        if to == self._fmt.elem and (self._home.get(place) == to or (place, to) in self._found):
            held = self._read(scope, source, to)
            self._same[own] = held
            if target in scope.outputs:
                self._identities[node] = helper.make_node("Identity", [held], [target], node.name)
            else:
                self._gone.add(node)
                self.dropped += 1
            return
        home = self._home.get(place, T.FLOAT)
        self._reads(node, 0, self._read(scope, source, T.FLOAT if place in self._lazy else home))
        if to == self._fmt.elem:
            self._found[place, to] = target
        elif to == T.FLOAT:
            self._becomes(own, T.FLOAT)
            self._edge(node, 0, T.FLOAT)

    def _becomes(self, place: Place, elem: int) -> None:
        scope, name = place
        self._home[place] = elem
        if elem != T.FLOAT:
            scope.set_elem_type(name, elem)

    def _edge(self, node: Node, index: int, made: int) -> None:
        """An output of the model keeps its name and gets its type: what the node makes has another name, and is cast."""
        name, scope = node.outputs[index], node.scope
        wanted = self._fmt.elem if self._reduced_io else T.FLOAT
        if scope.outer is not None or name not in scope.outputs or made == wanted:
            return
        place = (scope, name)
        fresh = self._graph.names.value(f"{name}/{dtype_name(made)}")
        self._outputs.setdefault(node, list(node.outputs))[index] = self._made_as[place] = fresh
        self._renamed[place] = node
        self._found[place, wanted] = name
        if place not in self._lazy:
            self._asked.add(place)
        self._insert(scope, node, self._lazy.get(place, fresh), wanted, name)
        scope.set_elem_type(name, wanted)

    def _read(self, scope: Scope, name: str, want: int) -> str:
        """The value's name in the type; Casts and constants that this needs are written."""
        place = place_of(scope, name)
        if place not in self._home:
            if scope.elem_type(name) != T.FLOAT or not scope.is_constant(name):
                return self._same.get(place, name)
            self._home[place] = T.FLOAT
        if self._home[place] == want:
            if want == T.FLOAT:
                self._asked.add(place)
            return self._made_as.get(place, name)
        if (place, want) not in self._found:
            self._found[place, want] = self._convert(place, want)
        return self._found[place, want]

    def _convert(self, place: Place, want: int) -> str:
        holder, name = place
        fresh = self._graph.names.value(f"{name}/{dtype_name(want)}")
        if want != T.FLOAT and holder.is_constant(name):
            self._constant(place, fresh)
            return fresh
        source = self._lazy.get(place) if want != T.FLOAT else None
        if source is None:
            source = self._made_as.get(place, name)
            self._asked.add(place)
        self._insert(holder, holder.producers.get(name), source, want, fresh)
        return fresh

    def _constant(self, place: Place, fresh: str) -> None:
        holder, name = place
        values = holder.constant(name)
        assert values is not None  # it is a constant
        self._converted[place] = None
        tensor = self._weights.tensor(np.asarray(values), fresh)
        if holder.outer is None:
            holder.set_tensor(tensor)
        else:  # TensorRT's parser and onnxruntime know Constant nodes in any graph
            node = constant_node(fresh, np.zeros(0, np.float32))
            node.attribute[0].t.CopyFrom(tensor)
            self._after[holder].setdefault(None, []).append(node)

    def _insert(self, scope: Scope, after: Node | None, source: str, to: int, out: str) -> None:
        name = self._graph.names.node(f"{out}/Cast")
        self._after[scope].setdefault(after, []).append(
            helper.make_node("Cast", [source], [out], name, to=to)
        )
        self.casts += 1

    def _results(self, scope: Scope) -> None:
        """What leaves an inner graph is float32. Of the model's own outputs `_edge` has taken care."""
        for position, name in enumerate(list(scope.results)):
            place = (scope, name)
            if place not in self._home and not scope.is_constant(name):
                held = self._same.get(place_of(scope, name), name)
            elif scope.outer is None:
                if self._home.get(place, T.FLOAT) == T.FLOAT:
                    self._asked.add(place)
                continue
            else:
                held = self._read(scope, name, T.FLOAT)
            if held != name and scope.outer is not None:
                scope.set_type(held, scope.types[name].type)
                if place in self._home:
                    scope.set_elem_type(held, T.FLOAT)
                scope.set_result(position, held)

    def _drop_unread(self) -> None:
        """Remove unread Casts to float32, and constants that are read in the reduced type alone."""
        for place in self._lazy:
            scope, name = place
            if place not in self._asked and self._made_as.get(place, "") not in ("", name):
                self._gone.add(self._renamed[place])
            elif place not in self._asked and place not in self._made_as:
                self._gone.add(scope.producers[name])
        for place in self._converted:
            scope, name = place
            if place not in self._asked and not scope.drop_tensor(name):
                self._gone.add(scope.producers[name])

    def _items(self, scope: Scope) -> Iterator[Node | onnx.NodeProto]:
        """The nodes of a graph, old and new, in order."""
        after = self._after.get(scope, {})
        yield from after.get(None, ())
        for node in scope.nodes:
            if node in self._identities:
                yield self._identities[node]
            elif node not in self._gone:
                yield node
            yield from after.get(node, ())
