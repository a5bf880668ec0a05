"""Puts a graph's nodes into their types: Casts at the borders of regions only, each value at most once for each type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.graph.scopes import Draft, Node, Scope
from trtsmith.converter.rewrite.engine.node_rule import constant_node
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.precision.ports import Ports
from trtsmith.converter.rewrite.precision.regions import Place, is_cast, place_of
from trtsmith.importers.dtypes import dtype_name

_PORTLESS = Ports()


class Writer:
    """One draft. `casts` counts the Casts that were inserted, `dropped` those of the model that are not needed any more."""

    def __init__(
        self,
        draft: Draft,
        fmt: Format,
        ports: Mapping[Node, Ports],
        reduced: Mapping[Node, bool],
        weights: Converted,
        reduced_io: bool,
    ) -> None:
        self.casts = self.dropped = 0
        self._draft, self._fmt, self._ports, self._reduced = draft, fmt, ports, reduced
        self._weights, self._reduced_io = weights, reduced_io
        self._home: dict[Place, int] = {}  # float32 values of the model: the type that they are made in now
        self._made_as: dict[Place, str] = {}  # where that is under another name
        self._found: dict[tuple[Place, int], str] = {}  # their names in other types
        self._same: dict[Place, str] = {}  # values of other types that are another value now
        self._lazy: dict[Place, str] = {}  # what a Cast made float32 of: written only if somebody asks
        self._asked: set[Place] = set()  # values that somebody reads in float32
        self._after: defaultdict[Scope, dict[Node | None, list[onnx.NodeProto]]] = defaultdict(dict)
        self._gone: defaultdict[Scope, set[Node]] = defaultdict(set)
        self._converted: dict[Place, None] = {}

    def write(self) -> None:
        """Changes the draft: nodes, initializers, and the types that it knows."""
        self._scope(self._draft.root)
        self._drop_unread()
        for scope in {**self._after, **self._gone}:
            self._rebuild(scope)
        self._draft.changed()  # types, even where not a node is new

    def _scope(self, scope: Scope) -> None:
        for name in scope.inputs:
            if scope.elem_type(name) == T.FLOAT:
                reduced = self._reduced_io and scope.outer is None
                self._becomes((scope, name), self._fmt.elem if reduced else T.FLOAT)
        for node in list(scope.nodes):
            if is_cast(node):
                self._cast(node)
            else:
                self._node(node)
            for inner in node.scopes:
                self._scope(inner)
        self._outputs(scope)

    def _node(self, node: Node) -> None:
        ports, scope = self._ports.get(node, _PORTLESS), node.scope
        elem = self._fmt.elem if self._reduced.get(node, False) else T.FLOAT
        floats = [i for i, name in enumerate(node.outputs) if name and scope.elem_type(name) == T.FLOAT]
        for index, name in enumerate(node.inputs):
            if name:
                node.proto.input[index] = self._read(scope, name, elem if index in ports.inputs else T.FLOAT)
        for index in floats:
            made = elem if index in ports.outputs else T.FLOAT
            self._becomes((scope, node.outputs[index]), made)
            self._edge(node, index, made)

    def _cast(self, node: Node) -> None:
        """A Cast of the model takes its input as it comes, and one to float32 is written only if somebody reads that."""
        scope, (source, *_), (target, *_) = node.scope, node.inputs, node.outputs
        to = next(int(a.i) for a in node.proto.attribute if a.name == "to")
        place, own = place_of(scope, source), (scope, target)
        if place not in self._home and not scope.is_constant(source):  # it was no float32 before
            source = node.proto.input[0] = self._same.get(place, source)
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
                node.proto.CopyFrom(helper.make_node("Identity", [held], [target], node.proto.name))
            else:
                self._gone[scope].add(node)
                self.dropped += 1
            return
        home = self._home.get(place, T.FLOAT)
        node.proto.input[0] = self._read(scope, source, T.FLOAT if place in self._lazy else home)
        if to == self._fmt.elem:
            self._found[place, to] = target
        elif to == T.FLOAT:
            self._becomes(own, T.FLOAT)
            self._edge(node, 0, T.FLOAT)

    def _becomes(self, place: Place, elem: int) -> None:
        scope, name = place
        self._home[place] = elem
        if elem != T.FLOAT and name in scope.types:
            scope.types[name].type.tensor_type.elem_type = elem

    def _edge(self, node: Node, index: int, made: int) -> None:
        """An output of the model keeps its name and gets its type: what the node makes has another name, and is cast."""
        name, scope = node.outputs[index], node.scope
        wanted = self._fmt.elem if self._reduced_io else T.FLOAT
        if scope.outer is not None or name not in scope.outputs or made == wanted:
            return
        place = (scope, name)
        fresh = self._draft.names.value(f"{name}/{dtype_name(made)}")
        node.proto.output[index] = self._made_as[place] = fresh
        scope.producers[fresh] = node
        self._found[place, wanted] = name
        if place not in self._lazy:
            self._asked.add(place)
        self._insert(scope, node, self._lazy.get(place, fresh), wanted, name)
        scope.types[name].type.tensor_type.elem_type = wanted

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
        fresh = self._draft.names.value(f"{name}/{dtype_name(want)}")
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
            holder.add_tensor(tensor)
        else:  # TensorRT's parser and onnxruntime know Constant nodes in any graph
            node = constant_node(fresh, np.zeros(0, np.float32))
            node.attribute[0].t.CopyFrom(tensor)
            self._after[holder].setdefault(None, []).append(node)

    def _insert(self, scope: Scope, after: Node | None, source: str, to: int, out: str) -> None:
        name = self._draft.names.node(f"{out}/Cast")
        self._after[scope].setdefault(after, []).append(
            helper.make_node("Cast", [source], [out], name, to=to)
        )
        self.casts += 1

    def _outputs(self, scope: Scope) -> None:
        """What leaves an inner graph is float32. Of the model's own outputs `_edge` has taken care."""
        for value in scope.graph.output:
            place = (scope, value.name)
            if place not in self._home and not scope.is_constant(value.name):
                held = self._same.get(place_of(scope, value.name), value.name)
            elif scope.outer is None:
                if self._home.get(place, T.FLOAT) == T.FLOAT:
                    self._asked.add(place)
                continue
            else:
                held = self._read(scope, value.name, T.FLOAT)
            if held != value.name and scope.outer is not None:
                other = onnx.ValueInfoProto()
                other.CopyFrom(scope.types.get(value.name, value))
                other.name = value.name = held
                if place in self._home:
                    other.type.tensor_type.elem_type = T.FLOAT
                scope.types[held] = other
                self._after[scope].setdefault(None, [])  # so that the graph is written anew

    def _drop_unread(self) -> None:
        """Casts to float32 that nobody reads any more, and constants that are read in the reduced type alone."""
        for place in self._lazy:
            scope, name = place
            if place not in self._asked and self._made_as.get(place, "") not in ("", name):
                self._gone[scope].add(scope.producers[self._made_as[place]])
            elif place not in self._asked and place not in self._made_as:
                self._gone[scope].add(scope.producers[name])
        for place in self._converted:
            scope, name = place
            if place in self._asked:
                continue
            if scope.tensors.pop(name, None) is None:
                self._gone[scope].add(scope.producers[name])

    def _rebuild(self, scope: Scope) -> None:
        after, gone = self._after[scope], self._gone[scope]
        replacements: dict[Node, list[Node]] = {}
        first = next(iter(scope.nodes), None)
        for node in scope.nodes:
            made = [scope.enter(proto) for proto in after.get(node, ())]
            if made or node in gone or node is first:
                start = [scope.enter(proto) for proto in after.get(None, ())] if node is first else []
                replacements[node] = [*start, *(() if node in gone else (node,)), *made]
        for node in gone:
            scope.leave(node)
        scope.replace(replacements)
