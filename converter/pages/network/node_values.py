"""Adds errors of values and times of layers, known by the engine graph's names, to a network.

`packed` makes of it a few long arrays of numbers and texts: 10,000 nodes take about 2 MB.

texts      every text once; the other entries have their numbers
names, ops, routes, rules, hows, dtypes, kept, attributes, holds    by node, numbers of texts
roles      by node: 0 a node, 1 an input, 2 an output of the model
inside     by node: the number of the one in whose graph it is, plus 1; 0 in the main graph. where: the attribute
inputs, outputs    by node, a list of numbers of values
values, types      names and types of values, numbers of texts; constant: the numbers of values that are initializers
x, y, depth        by drawn node, each the difference to the one before; drawn: their numbers, likewise
edges      source and target of each, places in `drawn`, each source the difference to the one before, each target to
           its source
bends      the edge's place in `edges`, how many points follow, then x and y of each
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.pages.network.entries import INPUT, NODE, OUTPUT, NetworkEntries, entries_of, types_of
from trtsmith.converter.pages.network.placement import Placement, placed
from trtsmith.converter.pages.network.routes import NodeRoute, routes_of
from trtsmith.converter.rewrite.rewrite import Rewritten

LONGEST_NAME = 400
"""Characters of a name that a page keeps; of a longer one the middle is left out."""

_NONE: Mapping[str, str] = {}
_ROLES = {NODE: 0, INPUT: 1, OUTPUT: 2}


class _Texts:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if len(text) > LONGEST_NAME:
            half = LONGEST_NAME // 2
            text = f"{text[:half]}…{text[-half:]}"
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self, texts: Iterable[str]) -> list[int]:
        return [self(text) for text in texts]


def packed(
    entries: NetworkEntries,
    routes: Sequence[NodeRoute],
    place: Placement | None = None,
    known: Mapping[str, str] = _NONE,
) -> dict[str, Any]:
    """Packs the network as data for a page. place: of the drawn entries; None: computed now.

    known: types and shapes of values that the original does not tell: those behind custom operators.
    """
    texts, nodes = _Texts(), entries.all
    drawn = [index for index, entry in enumerate(nodes) if entry.drawn]
    at = {index: number for number, index in enumerate(drawn)}
    edges = sorted((at[source], at[target]) for source, target in entries.edges)
    place = place or placed(len(drawn), edges)
    values: dict[str, int] = {}

    def numbers(names: Iterable[str]) -> list[int]:
        return [values.setdefault(name, len(values)) if name else -1 for name in names]

    inputs = [numbers(entry.inputs) for entry in nodes]
    outputs = [numbers(entry.outputs) for entry in nodes]
    types, constants = {**known, **entries.types}, entries.constants
    return {
        "names": texts.all(entry.name for entry in nodes),
        "ops": texts.all(entry.op for entry in nodes),
        "roles": [_ROLES[entry.role] for entry in nodes],
        "routes": texts.all(route.route for route in routes),
        "rules": texts.all(route.rule for route in routes),
        "hows": texts.all(route.how for route in routes),
        "dtypes": texts.all(route.dtype for route in routes),
        "kept": texts.all(route.kept for route in routes),
        "attributes": texts.all(entry.attributes for entry in nodes),
        "holds": texts.all(entry.holds for entry in nodes),
        "inside": [0 if entry.inside is None else entry.inside + 1 for entry in nodes],
        "where": texts.all(entry.where for entry in nodes),
        "inputs": inputs,
        "outputs": outputs,
        "values": texts.all(values),
        "types": texts.all(types.get(name, "") for name in values),
        "constant": [number for name, number in values.items() if name in constants],
        "drawn": _differences(drawn),
        "x": _differences(x for x, _ in place.places),
        "y": _differences(y for _, y in place.places),
        "depth": _differences(place.depth),
        "edges": _edges(edges),
        "bends": [
            number
            for index, edge in enumerate(edges)
            if edge in place.bends
            for number in (index, len(place.bends[edge]), *(c for point in place.bends[edge] for c in point))
        ],
        "layered": place.layered,
        "texts": list(texts.numbers),
    }


def _differences(numbers: Iterable[int]) -> list[int]:
    before, found = 0, []
    for number in numbers:
        found.append(number - before)
        before = number
    return found


def _edges(edges: Sequence[tuple[int, int]]) -> list[int]:
    before, found = 0, []
    for source, target in edges:
        found += [source - before, target - source]
        before = source
    return found


@dataclass(frozen=True, eq=False)
class PicturedNetwork:
    """The original model with the routes of its nodes, by entry index, if known."""

    entries: NetworkEntries
    routes: tuple[NodeRoute, ...]
    rewritten: Rewritten | None = None

    @cached_property
    def data(self) -> dict[str, Any]:
        """Returns the data for a page (see packed)."""
        known = types_of(self.rewritten.model.proto) if self.rewritten is not None else {}
        return packed(self.entries, self.routes, known=known)

    @cached_property
    def by_node(self) -> Mapping[str, int]:
        """The entry for the name of a node, in the original or in the engine's graph."""
        found: dict[str, int] = {}
        for index, (entry, route) in enumerate(zip(self.entries.all, self.routes, strict=True)):
            for name in (*route.stand, entry.name if entry.role == NODE else ""):
                if name:
                    found.setdefault(name, index)
        return found

    @cached_property
    def by_value(self) -> Mapping[str, int]:
        """The entry that makes a value of the original, or whose replacement makes a value of the engine's graph."""
        found = {
            name: index
            for index, entry in enumerate(self.entries.all)
            for name in entry.outputs
            if name and entry.role == NODE
        }
        if self.rewritten is not None:
            for graph in all_graphs(self.rewritten.model.proto.graph):
                for node in graph.node:
                    index = self.by_node.get(node.name, -1)
                    if index >= 0:
                        for name in filter(None, node.output):
                            found.setdefault(name, index)
        return found

    def errors(self, values: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
        """Lists [entry or -1, value, error, reason] for each value that `locate` compared, in its order."""
        return [
            [self.by_value.get(one["name"], -1), one["name"], one["error"], one["reason"]] for one in values
        ]

    def times(self, layers: Iterable[Mapping[str, Any]]) -> dict[int, list[Any]]:
        """Returns, by entry, [milliseconds, nodes in the layer]: a fused layer's time is divided evenly among its nodes."""
        found: dict[int, list[Any]] = {}
        for layer in layers:
            nodes = {self.by_node[name] for name in layer["nodes"] if name in self.by_node}
            for index in nodes:
                before = found.get(index, [0.0, 1])
                found[index] = [before[0] + layer["ms"] / len(nodes), max(before[1], len(nodes))]
        return found


def pictured(
    original: Model, rewritten: Rewritten | None = None, plan: Plan | None = None
) -> PicturedNetwork:
    """Makes the network of a model. Without the other arguments, routes are not known."""
    entries = entries_of(original)
    functions = {f"{function.domain}::{function.name}" for function in original.proto.functions}
    return PicturedNetwork(entries, tuple(routes_of(entries.all, rewritten, plan, functions)), rewritten)
