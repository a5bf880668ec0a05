"""Adds errors of values and times of layers, known by the engine graph's names, to a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.pages.network.entries import NODE, NetworkEntries, entries_of, types_of
from trtsmith.converter.pages.network.packed import packed
from trtsmith.converter.pages.network.routes import NodeRoute, routes_of
from trtsmith.converter.rewrite.rewrite import Rewritten


@dataclass(frozen=True, eq=False)
class PicturedNetwork:
    """The original model, and what became of its nodes where that is known: an entry's route has its index."""

    entries: NetworkEntries
    routes: tuple[NodeRoute, ...]
    rewritten: Rewritten | None = None

    @cached_property
    def data(self) -> dict[str, Any]:
        """For a page (see packed)."""
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
        """The entry that makes a value of the original, or that the maker of a value in the engine's graph stands for."""
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
        """[entry or -1, value, error, reason] for each value that `locate` compared, in its order."""
        return [
            [self.by_value.get(one["name"], -1), one["name"], one["error"], one["reason"]] for one in values
        ]

    def times(self, layers: Iterable[Mapping[str, Any]]) -> dict[int, list[Any]]:
        """By entry [milliseconds, nodes in the layer]: a fused layer's time is divided evenly among its nodes."""
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
    """The network of a model. Without the others, routes are not known."""
    entries = entries_of(original)
    functions = {f"{function.domain}::{function.name}" for function in original.proto.functions}
    return PicturedNetwork(entries, tuple(routes_of(entries.all, rewritten, plan, functions)), rewritten)
