"""Stage: plans how every node reaches TensorRT, with which plugin libraries, and reports all problems. Needs no GPU."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import onnx

from trtsmith.converter.base.options.shapes import input_problems
from trtsmith.converter.base.printable import one_line
from trtsmith.converter.convert.foreign_nodes import ForeignPlan, ForeignPlugins
from trtsmith.converter.convert.node_problems import (
    attributes_of,
    new_command,
    plugin_faults,
    unknown_operator,
)
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.build_request import PluginUse
from trtsmith.converter.graph.constant_nodes import branch_of
from trtsmith.converter.graph.infer import dtypes_of, shapes_of, value_types
from trtsmith.converter.graph.walk import all_graphs, may_have_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.operators.compiled import CompiledOperators, compiled_operators
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.importers.counted import counted
from trtsmith.importers.fields import fields_of_node, plugin_fields
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, OpDef
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import (
    by_name,
    normalise_domain,
    op_name,
    package_of,
)

__all__ = ["Plan", "PlannedNode", "Route", "native_operators", "plan"]


class Route(Enum):
    """The way in which a node reaches TensorRT."""

    NATIVE = "native"
    FUNCTION = "function"  # a function body in the model; the parser inlines it
    REWRITTEN = "rewritten"
    PLUGIN = "plugin"
    STOCK = "stock plugin"  # of the TensorRT that builds and runs the engine
    UNSUPPORTED = "unsupported"


LONGEST_NAME = 4095
"""TensorRT-RTX 1.7 refuses 4,096: "The given name exceeds the limit (4096 characters)"."""

Constants = Mapping[str, onnx.TensorProto]
_NONE: Constants = {}
A = onnx.AttributeProto


@dataclass(frozen=True)
class PlannedNode:
    """One node of the original model, or a node that a pass added, under the original's name.

    A node that rules replaced by standard nodes has one entry, whatever their number. foreign: whether a plugin that is not
    ours takes it.
    """

    name: str
    op_type: str
    route: Route
    how: str
    foreign: bool = False


@dataclass(frozen=True)
class Plan:
    """Routes of all nodes, plugins to create, and the problems; convertible when there are none.

    plugins:  ours, and those of operators from outside. foreign: those of the user's libraries and of TensorRT itself.
    compiled: the libraries of the plugins that are from outside, where they have been looked for.
    warnings: what the user should know of foreign plugins and weights, one sentence each.
    """

    nodes: tuple[PlannedNode, ...]
    plugins: tuple[PluginUse, ...]
    problems: tuple[Problem, ...]
    foreign: tuple[PluginUse, ...] = ()
    warnings: tuple[str, ...] = ()
    compiled: tuple[CompiledOperators, ...] = ()

    def __repr__(self) -> str:
        return f"<Plan: {self.summary(self.problems)}>"

    def summary(self, problems: Sequence[Problem]) -> str:
        """Counts nodes by route, and names the problems."""
        counts = [f"{count} {route}" for route, count in self.routes().items()]
        said = [one_line(f"{problem.what} ({problem.where})") for problem in problems]
        return f"nodes: {', '.join(counts) or 'none'}; problems: {'; '.join(said) or 'none'}"

    @property
    def foreign_nodes(self) -> tuple[PlannedNode, ...]:
        """The nodes of foreign plugins."""
        return tuple(node for node in self.nodes if node.foreign)

    @property
    def convertible(self) -> bool:
        return not self.problems

    def routes(self) -> dict[str, int]:
        """Counts nodes by route."""
        counts = Counter(node.route.value for node in self.nodes)
        return {route.value: counts[route.value] for route in Route if counts[route.value]}


_NO_OTHERS = ForeignPlugins()


def plan(rewritten: Rewritten, foreign: ForeignPlugins = _NO_OTHERS) -> Plan:
    """Plans a rewritten model, without a GPU; asks TensorRT only about operators that are unknown otherwise.

    foreign: the plugins of others; nodes of their op_types that are neither ours nor TensorRT's own are theirs.
    """
    proto = rewritten.model.proto
    work = _Planning(rewritten, foreign)
    for node in _all_nodes(rewritten.model, proto.graph):
        work.take(node)
    gone = (r for r in rewritten.rewrites if not r.plugin_node and r.node not in work.told)
    work.nodes.extend(_rewritten_route(record) for record in gone)  # folded away since
    problems = (*work.problems, *input_problems(proto), *_long_names(proto))
    return Plan(tuple(work.nodes), tuple(work.plugins), problems, tuple(work.others), tuple(work.warnings))


class _Planning:
    """The plan of the nodes so far. told: rewritten nodes that have their entry."""

    def __init__(self, rewritten: Rewritten, foreign: ForeignPlugins) -> None:
        proto, rewrites, theirs = rewritten.model.proto, rewritten.rewrites, foreign.names
        self._path, self._foreign = rewritten.model.path, foreign
        self._functions = {(normalise_domain(f.domain), f.name) for f in proto.functions}
        self._replaced = {record.plugin_node: record for record in rewrites if record.plugin_node}
        self._standing = {name: record for record in rewrites for name in record.made}
        fatal = [record for record in rewritten.declined if record.fatal]
        self._declined = {r.node: r for r in fatal if r.op_type.rpartition("::")[2] not in theirs}
        self._ours, self._native = by_name(), native_operators()
        plugged = [n for g in all_graphs(proto.graph) for n in g.node if self._is_ours(n)]
        self._by_plugin = {self._standing[n.name].node for n in plugged if n.name in self._standing}
        read = value_types(proto, {name for node in plugged for name in node.input}) if plugged else {}
        self._shapes, self._dtypes = shapes_of(read), dtypes_of(read)
        self.told: set[str] = set()
        self._warned: set[str] = set()
        self.nodes: list[PlannedNode] = []
        self.plugins: list[PluginUse] = []
        self.others: list[PluginUse] = []
        self.warnings: list[str] = []
        self.problems = [*foreign.problems, *(record.problem() for record in self._declined.values())]

    def _is_ours(self, node: onnx.NodeProto) -> bool:
        return node.domain == PLUGIN_NAMESPACE and node.op_type in self._ours

    def take(self, node: onnx.NodeProto) -> None:
        whose = self._standing.get(node.name)
        if whose is not None and whose.node not in self.told:
            self.told.add(whose.node)
            route = Route.PLUGIN if whose.node in self._by_plugin else Route.REWRITTEN
            self.nodes.append(_rewritten_route(whose, route))
        if self._is_ours(node):
            self._take_ours(node, whose)
        elif (normalise_domain(node.domain), node.op_type) in self._functions:
            self._add(node, Route.FUNCTION, "function body in the model")
        elif node.name in self._declined:
            self._add(node, Route.UNSUPPORTED, self._declined[node.name].refusal.reason)
        elif node.op_type not in self._native:
            self._take_foreign(node)
        elif whose is None:
            self._add(node, Route.NATIVE, _IMPORTED)
            if _is_somebodys(node) and op_name(node) not in self._warned:
                self._warned.add(op_name(node))
                self.warnings.append(
                    f"node {node.name or node.output[0]!r} ({op_name(node)}): TensorRT's parser looks at no domain and "
                    f"takes its own {node.op_type}; if yours computes something else: {new_command(node, self._path)}"
                )

    def _add(self, node: onnx.NodeProto, route: Route, how: str, *, foreign: bool = False) -> None:
        self.nodes.append(PlannedNode(node.name, op_name(node), route, how, foreign=foreign))

    def _take_ours(self, node: onnx.NodeProto, whose: Rewrite | None) -> None:
        op, record = self._ours[node.op_type], self._replaced.get(node.name, whose)
        if whose is None:
            self.nodes.append(_plugin_route(node, op, record))
        faults = list(plugin_faults(node, op, self._shapes, self._dtypes, record))
        self.problems.extend(faults)
        if not faults:
            fields = plugin_fields(op, fields_of_node(op, attributes_of(node)))
            self.plugins.append(PluginUse(node.name, op.name, op.version, PLUGIN_NAMESPACE, fields))

    def _take_foreign(self, node: onnx.NodeProto) -> None:
        """A node that TensorRT's parser does not know by itself."""
        held = self._foreign.plan(node)
        if held is not None:
            self._add(node, _foreign_route(held), held.how, foreign=True)
            self.problems.extend(held.problems)
            self.warnings.extend(held.notes)
            self.others += [held.use] if held.use is not None else []
        elif self._foreign.imports(node.op_type):
            self._add(node, Route.NATIVE, _IMPORTED)
        else:
            problem = self._foreign.missing(node, self._path) or unknown_operator(
                node, op_name(node), self._path
            )
            self.problems.append(problem)
            self._add(node, Route.UNSUPPORTED, problem.what)


_IMPORTED = "imported by TensorRT's ONNX parser"


_OF_RUNTIMES = ("ai.onnx", "com.microsoft", "com.ms", "onnx", "org.pytorch", "trt", "tensorrt", "pkg.")
"""How domains begin whose operators are what their names say."""


def _is_somebodys(node: onnx.NodeProto) -> bool:
    """Whether the node has a domain of its maker's, though TensorRT has an operator of its name."""
    domain = normalise_domain(node.domain)
    return bool(domain) and not domain.startswith(_OF_RUNTIMES) and not node.op_type.startswith("TRT_")


def _long_names(proto: onnx.ModelProto) -> Iterator[Problem]:
    """The problem of names that are too long for layers and tensors in TensorRT's parser."""
    long: list[tuple[str, int]] = []
    for graph in all_graphs(proto.graph):
        values = [value.name for value in (*graph.input, *graph.initializer)]
        values += [name for node in graph.node for name in node.output]
        named = [("node", node.name) for node in graph.node] + [("value", name) for name in values]
        long += [
            (f"{kind} {name!r}", size) for kind, name in named if (size := len(name.encode())) > LONGEST_NAME
        ]
    if long:
        (where, size), *others = long
        verb = "is" if len(others) == 1 else "are"
        also = f", and {counted(len(others), 'other')} {verb} too long" if others else ""
        what = f"a name has {size:,} bytes{also}"
        expected = f"names of at most {LONGEST_NAME:,} bytes, as TensorRT has them"
        yield Problem(what, where, expected, "rename it in the model")


def _foreign_route(held: ForeignPlan) -> Route:
    if held.problems:
        return Route.UNSUPPORTED
    return Route.STOCK if held.stock else Route.PLUGIN


def _all_nodes(model: Model, graph: onnx.GraphProto, outer: Constants = _NONE) -> Iterator[onnx.NodeProto]:
    """Every node that TensorRT reads; for an If with a constant condition only those of the live branch."""
    known: Constants | None = None
    for node in graph.node:
        yield node
        if not may_have_graphs(node.op_type, node.domain):
            continue
        branches = [a for a in node.attribute if a.type in (A.GRAPH, A.GRAPHS)]
        if branches and known is None:
            known = {**outer, **dict(_constants(graph))}
        if node.op_type == "If" and not normalise_domain(node.domain) and known and node.input[0] in known:
            live = branch_of(model.array(known[node.input[0]]))
            branches = [a for a in branches if a.name == live]
        for attribute in branches:
            for subgraph in (attribute.g,) if attribute.type == A.GRAPH else attribute.graphs:
                yield from _all_nodes(model, subgraph, known or outer)


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    fed = {value.name for value in graph.input}
    yield from ((tensor.name, tensor) for tensor in graph.initializer if tensor.name not in fed)
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            yield node.output[0], node.attribute[0].t


def _plugin_route(node: onnx.NodeProto, op: OpDef, record: Rewrite | None) -> PlannedNode:
    plugin = f"plugin {PLUGIN_NAMESPACE}::{op.name} version {op.version}"
    if record is None:
        return PlannedNode(node.name, op_name(node), Route.PLUGIN, plugin)
    return PlannedNode(record.node, record.op_type, Route.PLUGIN, plugin)


def _rewritten_route(record: Rewrite, route: Route = Route.REWRITTEN) -> PlannedNode:
    return PlannedNode(record.node, record.op_type, route, f"{record.what} ({record.pass_name})")


def with_libraries(planned: Plan) -> Plan:
    """Returns the plan with the libraries of operators from outside, and a problem for each that is missing or wrong."""
    compiled, problems = compiled_operators(use.name for use in planned.plugins)
    return replace(planned, compiled=compiled, problems=(*planned.problems, *problems))


def needed_libraries(planned: Plan, given: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Lists every library to load, each once: ours, then those of operators from outside, then the user's.

    UsageError where ours is needed and not there.
    """
    ours = any(package_of(use.name) is None for use in planned.plugins)
    found = (
        *((libraries.plugin_library(),) if ours else ()),
        *(library.path for library in planned.compiled),
        *given,
    )
    return tuple({os.path.realpath(path): path for path in reversed(found)}.values())[::-1]


def library_of_plugins(planned: Plan, loaded: tuple[Path, ...] = ()) -> dict[str, Path]:
    """Returns the library of each plugin of the plan, by plugin name.

    loaded: copies beside an engine; one of the same file name is taken, as the engine runs it.
    """
    outside = {name: library.path for library in planned.compiled for name in library.operators}
    copies = {path.name: path for path in loaded}
    found = {}
    for use in planned.plugins:
        path = outside[use.name] if use.name in outside else libraries.plugin_library()
        found[use.name] = copies.get(path.name, path)
    return found
