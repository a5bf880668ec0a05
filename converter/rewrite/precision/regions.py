"""Chooses where the network's precision changes: nodes free in type follow the neighbours that need the fewest Casts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from onnx import TensorProto as T

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.precision.judge import Judgement, Wish
from trtsmith.converter.rewrite.precision.ports import Ports

Place = tuple[Scope, str]
"""A value: the graph that makes it, and its name there."""


@dataclass
class Flow:
    """The nodes' reading of values. Casts are left out: they read and produce any type.

    readers: nodes with a port of a changeable type. bound: values that something needs in float32 whatever the nodes do.
    """

    readers: defaultdict[Place, list[Node]] = field(default_factory=lambda: defaultdict(list))
    bound: set[Place] = field(default_factory=set)


def place_of(scope: Scope, name: str) -> Place:
    return scope.holder(name) or scope, name


def is_cast(node: Node) -> bool:
    return node.op_type == "Cast" and not node.domain


def flow_of(order: Iterable[Node], ports: Mapping[Node, Ports], reduced_io: bool) -> Flow:
    """Follows all nodes of all graphs. order: these nodes. reduced_io: whether the model's outputs are reduced too."""
    flow = Flow()
    roots: dict[Scope, None] = {}
    for node in order:
        roots[node.scope] = None
        free = set(ports[node].inputs) if node in ports else set()
        for index, name in enumerate(node.inputs):
            if not name or is_cast(node):
                continue
            place = place_of(node.scope, name)
            if index in free:
                flow.readers[place].append(node)
            elif node.scope.elem_type(name) == T.FLOAT:
                flow.bound.add(place)
    for scope in roots:
        if scope.outer is not None or not reduced_io:
            flow.bound.update(place_of(scope, name) for name in scope.outputs)
    return flow


def assign(
    order: Iterable[Node],
    ports: Mapping[Node, Ports],
    judged: Mapping[Node, Judgement],
    flow: Flow,
    reduced_io: bool,
) -> dict[Node, bool]:
    """Decides which nodes with changeable ports are reduced. Linear in the number of edges."""
    chosen = [node for node in order if node in judged]
    ahead = _wishes_ahead(chosen, ports, judged, flow)
    reduced: dict[Node, bool] = {}
    for node in chosen:
        wish = judged[node].wish
        if wish is Wish.EITHER:
            reduced[node] = _prefers_reduced(node, ports[node], judged, flow, ahead, reduced, reduced_io)
        else:
            reduced[node] = wish is Wish.REDUCED
    return reduced


def _wishes_ahead(
    chosen: list[Node], ports: Mapping[Node, Ports], judged: Mapping[Node, Judgement], flow: Flow
) -> dict[Node, Wish]:
    """The type that a node's readers want, through nodes that take either: reduced if any does, EITHER if none cares."""
    ahead: dict[Node, Wish] = {}
    for node in reversed(chosen):
        wish = judged[node].wish
        ahead[node] = wish if wish is not Wish.EITHER else _of_readers(node, ports[node], flow, ahead)
    return ahead


def _of_readers(node: Node, ports: Ports, flow: Flow, ahead: Mapping[Node, Wish]) -> Wish:
    wishes = _reader_wishes(node, ports, flow, ahead)
    if Wish.REDUCED in wishes:
        return Wish.REDUCED
    return Wish.FULL if Wish.FULL in wishes else Wish.EITHER


def _reader_wishes(node: Node, ports: Ports, flow: Flow, ahead: Mapping[Node, Wish]) -> set[Wish]:
    wishes: set[Wish] = set()
    for index in ports.outputs:
        place = (node.scope, node.outputs[index])
        wishes.update(ahead.get(reader, Wish.EITHER) for reader in flow.readers.get(place, ()))
        if place in flow.bound:
            wishes.add(Wish.FULL)
    return wishes


def _prefers_reduced(
    node: Node,
    ports: Ports,
    judged: Mapping[Node, Judgement],
    flow: Flow,
    ahead: Mapping[Node, Wish],
    reduced: Mapping[Node, bool],
    reduced_io: bool,
) -> bool:
    """Casts in either case: of values that come in the other type, and one if somebody reads the result in the other."""
    full = small = 0
    for name in dict.fromkeys(node.inputs[i] for i in ports.inputs):
        made = _made_reduced(node.scope, name, judged, reduced, reduced_io)
        full += made is False
        small += made is True
    wishes = _reader_wishes(node, ports, flow, ahead)
    if_reduced, if_full = full + (Wish.FULL in wishes), small + (Wish.REDUCED in wishes)
    if if_reduced == if_full:
        return not (full and not small)
    return if_reduced < if_full


def _made_reduced(
    scope: Scope, name: str, judged: Mapping[Node, Judgement], reduced: Mapping[Node, bool], reduced_io: bool
) -> bool | None:
    """Whether the value comes reduced; None if it costs nothing in either type: constants, and what a Cast makes."""
    if scope.is_constant(name):
        return None
    holder = scope.holder(name)
    node = holder.producers.get(name) if holder is not None else None
    if node is None:
        return reduced_io and holder is not None and holder.outer is None
    if is_cast(node):
        return None
    return reduced.get(node, False) if node in judged else False
