"""Finds the route of each node of the original model, with its rule and its compute type.

Nodes are matched by their names, and those without a name, or with one that several have, by the values that they make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import onnx

from trtsmith.converter.convert.plan import Plan, PlannedNode, Route
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.pages.network.entries import NODE, NetworkEntry
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.importers.registry import op_name

GONE = "gone"
"""The route of a node that has none: constants decide it, another covers it, or nothing reads it."""

_NO_FUNCTIONS: Set[str] = frozenset()

_WHY_GONE = "no node of the engine's graph: constants decide it, it is part of a pattern, or nothing reads it"


@dataclass(frozen=True)
class NodeRoute:
    """The route of a node.

    route: of convert.plan.Route, GONE, or "" if unknown. rule: the rule that rewrote it, or "".
    dtype: of its first output in the engine's graph, "" if unknown. kept: why it stays in float32.
    stand: names of the nodes of the engine's graph that stand for it.
    """

    route: str = ""
    rule: str = ""
    how: str = ""
    dtype: str = ""
    kept: str = ""
    stand: tuple[str, ...] = ()


def routes_of(
    entries: Sequence[NetworkEntry],
    rewritten: Rewritten | None,
    plan: Plan | None,
    functions: Set[str] = _NO_FUNCTIONS,
) -> list[NodeRoute]:
    """Returns a route for each entry, in order; empty ones for inputs and outputs, and where nothing is known.

    functions: operators that are functions in the model.
    """
    if rewritten is None or plan is None:
        return [NodeRoute()] * len(entries)
    known = _RouteSources(rewritten, plan, _shared_names(entries), functions)
    return [known.route(entry) if entry.role == NODE else NodeRoute() for entry in entries]


def _shared_names(entries: Iterable[NetworkEntry]) -> frozenset[str]:
    """Names that say nothing, since several nodes have them."""
    counts = Counter(entry.name for entry in entries if entry.role == NODE)
    return frozenset(name for name, count in counts.items() if count > 1)


@dataclass(frozen=True, eq=False)
class _RouteSources:
    """What is known of the engine's graph, by names."""

    rewritten: Rewritten
    plan: Plan
    shared: frozenset[str]
    functions: Set[str]

    @cached_property
    def nodes(self) -> Mapping[str, onnx.NodeProto]:
        """Nodes of the engine's graph that have a name of their own."""
        return {n.name: n for g in all_graphs(self.rewritten.model.proto.graph) for n in g.node if n.name}

    @cached_property
    def makers(self) -> Mapping[str, onnx.NodeProto]:
        """The node of the engine's graph that makes a value."""
        graphs = all_graphs(self.rewritten.model.proto.graph)
        return {name: n for g in graphs for n in g.node for name in n.output if name}

    @cached_property
    def planned(self) -> Mapping[str, PlannedNode]:
        return {node.name: node for node in self.plan.nodes if node.name}

    @cached_property
    def by_kind(self) -> Mapping[str, PlannedNode]:
        """The route of unchanged nodes, by operator."""
        return {node.op_type: node for node in self.plan.nodes if node.route is not Route.REWRITTEN}

    @cached_property
    def records(self) -> Mapping[str, Rewrite]:
        return {record.node: record for record in self.rewritten.rewrites if record.node}

    @cached_property
    def standing(self) -> Mapping[str, Rewrite]:
        """The record of each node that a rule or pass made."""
        return {
            name: record
            for record in self.rewritten.rewrites
            for name in (*record.made, record.plugin_node)
            if name
        }

    @cached_property
    def dtypes(self) -> Mapping[str, str]:
        return value_dtypes(self.rewritten.model.proto)

    @cached_property
    def kept(self) -> Mapping[str, str]:
        precision = self.rewritten.precision
        return {one.node: one.reason for one in precision.kept} if precision is not None else {}

    def route(self, entry: NetworkEntry) -> NodeRoute:
        named = entry.name if entry.name and entry.name not in self.shared else ""
        record, maker = self._found(entry, named)
        if record is not None:
            return self._rewritten(record)
        held = self.planned.get(named)
        if maker is not None and (maker.name == named or op_name(maker) == entry.op):
            held = held or self.by_kind.get(entry.op)
            return self._made(
                NodeRoute(held.route.value, "", held.how) if held is not None else NodeRoute(), (maker,)
            )
        if held is not None and held.route is Route.UNSUPPORTED:
            return NodeRoute(held.route.value, "", held.how)
        if entry.op in self.functions:
            return NodeRoute(
                Route.FUNCTION.value, "", "a function of the model, whose nodes stand in its place"
            )
        return NodeRoute(GONE, "", _WHY_GONE)

    def _found(self, entry: NetworkEntry, named: str) -> tuple[Rewrite | None, onnx.NodeProto | None]:
        """The record of what became of the node, and the node that stands for it; by its name, or by its outputs."""

        def of_entry(record: Rewrite | None) -> Rewrite | None:
            return record if record is not None and record.op_type == entry.op else None

        record = of_entry(self.records.get(named)) if named else None
        maker = self.nodes.get(named) if named else None
        if record is None and maker is None:
            maker = next((self.makers[name] for name in entry.outputs if name in self.makers), None)
            # of another op_type, it is of a node that the same node stands for
            record = of_entry(self.standing.get(maker.name)) if maker is not None else None
        return record, maker

    def _rewritten(self, record: Rewrite) -> NodeRoute:
        held = self.planned.get(record.node)
        route = held.route.value if held is not None else Route.REWRITTEN.value
        names = (record.plugin_node, *record.made)
        made = [self.nodes[name] for name in names if name in self.nodes]
        how = "; ".join((record.what, *record.notes, *record.numerics))
        if held is not None and held.route is Route.PLUGIN:
            how = f"{held.how}: {how}"
        return self._made(NodeRoute(route, record.pass_name, how), made)

    def _made(self, route: NodeRoute, nodes: Sequence[onnx.NodeProto]) -> NodeRoute:
        """With what is known of the nodes that stand for it."""
        dtypes = (self.dtypes.get(n.output[0], "") for n in reversed(nodes) if n.output)
        kept = (self.kept.get(n.name, "") for n in nodes if n.name)
        stand = tuple(n.name for n in nodes if n.name)
        return NodeRoute(
            route.route,
            route.rule,
            route.how,
            next(filter(None, dtypes), ""),
            next(filter(None, kept), ""),
            stand,
        )
