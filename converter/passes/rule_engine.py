"""Applies rules (converter/passes/node_rule.py) to every node of a model, in rounds, until none of them fires.

A round infers shapes, folds constants, offers each node of every graph to the rules of its op_type, and puts what they
give in the nodes' places. It costs a pass over the graph, whatever fires. A rule sees the graph as it was at the
beginning of the round. Values that only replaced nodes read are removed with the nodes that made them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from converter.errors import ConversionError
from converter.fold import fold_constants
from converter.infer import infer_shapes
from converter.modelfile.model import Model
from converter.passes.base import Declined, Rewrite
from converter.passes.node_rule import NodeRule, NodeView, Replacement
from converter.passes.scopes import Scope, Shared, all_graphs, subgraphs
from importers.opdef import Refusal
from importers.problem import Problem
from importers.registry import normalise_domain

ROUNDS = 12
"""More than the longest chain of rules in use (5, a loss by its function) needs; a rule that loops never ends."""


@dataclass(frozen=True)
class Ruled:
    """The model after the rules (itself if none fired), and what they did, one record for each original node."""

    model: Model
    rewrites: tuple[Rewrite, ...]
    declined: tuple[Declined, ...]


@dataclass
class _Entry:
    """What was done so far to one original node."""

    node: str
    op_type: str
    steps: list[tuple[str, str]] = field(default_factory=list)  # (rule, what)
    notes: list[str] = field(default_factory=list)
    numerics: list[str] = field(default_factory=list)

    def record(self, made: Iterable[str]) -> Rewrite:
        rules = tuple(dict.fromkeys(rule for rule, _ in self.steps))
        what = tuple(dict.fromkeys(what for _, what in self.steps))
        return Rewrite(
            node=self.node,
            op_type=self.op_type,
            pass_name=", ".join(rules),
            what="; then ".join(what),
            notes=tuple(dict.fromkeys(self.notes)),
            numerics=tuple(dict.fromkeys(self.numerics)),
            made=tuple(made),
        )


def apply_rules(model: Model, rules: Sequence[NodeRule], rounds: int = ROUNDS) -> Ruled:
    """Every rule on every node, again and again. `model` has its shapes inferred; so has the result.

    ConversionError, with the rule's name, if rules still fire after `rounds` rounds or one breaks its contract.
    """
    table: dict[tuple[str, str], list[NodeRule]] = defaultdict(list)
    for rule in rules:
        for op_type in rule.op_types:
            domain, _, name = op_type.rpartition("::")
            table[domain, name].append(rule)
    if not _any_candidate(model.proto, table):
        return Ruled(model, (), ())
    ledger: dict[str, _Entry] = {}  # by name of the original node
    origin: dict[str, str] = {}  # name of a node that a rule made: name of the original node
    current = model
    for _ in range(rounds):
        folded = _folded(current)
        step = _Round(folded, current, table, ledger, origin)
        step.run()
        if not step.fired and ledger and _size(folded) < _size(current):
            current = folded  # more is known of it now
            continue
        if not step.fired:
            named = step.model if step.declined else current
            return Ruled(named, _records(named.proto, ledger, origin), tuple(step.declined))
        current = infer_shapes(step.model)
    culprits = ", ".join(f"{name} ({count} times)" for name, count in step.fired.most_common(3))
    raise _internal(f"rules do not come to an end: after {rounds} rounds these still fire: {culprits}", model)


def _folded(model: Model) -> Model:
    """Constants folded, types inferred again, until that finds no more: a Range is known once its ends are."""
    for _ in range(ROUNDS):
        folded = fold_constants(model)
        if _size(folded) >= _size(model):
            break
        model = infer_shapes(folded)
    return model


def _size(model: Model) -> int:
    return len(model.proto.graph.node)


def _any_candidate(proto: onnx.ModelProto, table: Mapping[tuple[str, str], object]) -> bool:
    return any(
        (normalise_domain(node.domain), node.op_type) in table
        for graph in all_graphs(proto.graph)
        for node in graph.node
    )


def _records(
    proto: onnx.ModelProto, ledger: Mapping[str, _Entry], origin: Mapping[str, str]
) -> tuple[Rewrite, ...]:
    made: dict[str, list[str]] = defaultdict(list)
    for graph in all_graphs(proto.graph) if ledger else ():
        for node in graph.node:
            if node.name in origin:
                made[origin[node.name]].append(node.name)
    return tuple(entry.record(made[name]) for name, entry in ledger.items())


def _internal(what: str, model: Model) -> ConversionError:
    return ConversionError(
        Problem(
            what, str(model.path), "rules that end", "report it with the model: this is a bug in trtsmith"
        )
    )


class _Round:
    """One round over one model. `model` is what came out; `fired` counts rules by name."""

    def __init__(
        self,
        model: Model,
        unfolded: Model,
        table: Mapping[tuple[str, str], Sequence[NodeRule]],
        ledger: dict[str, _Entry],
        origin: dict[str, str],
    ) -> None:
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        self.model = model.with_proto(proto)
        self.fired: Counter[str] = Counter()
        self.declined: list[Declined] = []
        self._table = table
        self._ledger = ledger
        self._origin = origin
        self._shared = Shared(self.model, unfolded)

    def run(self) -> None:
        self._graph(self.model.proto.graph, None)

    def _graph(self, graph: onnx.GraphProto, outer: Scope | None) -> None:
        scope = Scope(graph, self._shared, outer)
        nodes: list[onnx.NodeProto] = []
        freed: list[str] = []
        for node in graph.node:
            made = self._node(node, scope)
            if made is None:
                for inner in subgraphs(node):
                    self._graph(inner, scope)
                nodes.append(node)
            else:
                nodes.extend(made)
                freed.extend(name for name in node.input if name)
                self._shared.used.subtract(node.input)
                for new in made:
                    self._count(new)
        if freed:
            nodes = self._without_dead(nodes, freed, graph)
            kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(kept)

    def _count(self, node: onnx.NodeProto) -> None:
        self._shared.used.update(name for name in node.input if name)
        for graph in subgraphs(node):
            self._shared.used.update(value.name for value in graph.output)
            for inner in graph.node:
                self._count(inner)

    def _node(self, node: onnx.NodeProto, scope: Scope) -> list[onnx.NodeProto] | None:
        kind = normalise_domain(node.domain), node.op_type
        rules = self._table.get(kind)
        if not rules or kind in self._shared.functions:
            return None
        view = NodeView(node, node.name, scope, made=node.name in self._origin)
        refusal: tuple[NodeRule, Refusal] | None = None
        for rule in rules:
            result = rule.rewrite(view)
            if isinstance(result, Replacement):
                name = self._unique(node)
                self.fired[rule.name] += 1
                return self._accept(view, name, rule, result)
            if result is not None and refusal is None:
                refusal = rule, result
        if refusal is not None:
            name = self._unique(node)
            node.name = name  # so that the plan finds the node by the name in the record
            source = self._ledger.get(self._origin.get(name, ""))
            shown = "::".join(part for part in kind if part)
            if source is not None:
                shown += f", made of {source.op_type} {source.node!r}"
            self.declined.append(Declined(name, shown, refusal[0].name, refusal[1]))
        return None

    def _unique(self, node: onnx.NodeProto) -> str:
        """The node's name; another one if it has none or shares it."""
        if node.name and self._shared.node_names[node.name] == 1:
            return str(node.name)
        wanted = node.name or next((name for name in node.output if name), node.op_type)
        return self._shared.fresh_node(wanted)

    def _accept(self, view: NodeView, name: str, rule: NodeRule, result: Replacement) -> list[onnx.NodeProto]:
        """The nodes of a replacement, named, and the ledger brought up to date."""
        self._check(view, rule, result)
        key = self._origin.get(name, name)
        shown = "::".join(part for part in (view.domain, view.op_type) if part)
        entry = self._ledger.setdefault(key, _Entry(key, shown))
        entry.steps.append((rule.name, result.what))
        entry.notes.extend(result.notes)
        if result.numerics:
            entry.numerics.append(result.numerics)
        for node in result.nodes:
            node.name = self._shared.fresh_node(f"{key}/{node.op_type}")
            self._origin[node.name] = key
        return list(result.nodes)

    def _check(self, view: NodeView, rule: NodeRule, result: Replacement) -> None:
        """What a rule promises. ConversionError names the rule that broke it."""
        where = f"rule {rule.name!r} on {view.op_type} {view.name!r}"
        made: set[str] = set()
        old = {name for name in view.outputs if name}
        for node in result.nodes:
            for name in node.output:
                if name and name in made:
                    raise _internal(f"{where} makes {name!r} twice", self.model)
                if name:  # an output that is left out is not read by an input that is
                    made.add(name)
        missing = [name for i, name in enumerate(view.outputs) if view.used(i) and name not in made]
        if missing:
            raise _internal(f"{where} does not make the output {missing[0]!r}", self.model)
        defined: set[str] = set()
        for node in result.nodes:
            late = next(
                (n for n in node.input if (n in made and n not in defined) or n in old - defined), None
            )
            if late is not None:
                raise _internal(f"{where} reads {late!r} before it is made", self.model)
            defined.update(node.output)

    def _without_dead(
        self, nodes: list[onnx.NodeProto], freed: Iterable[str], graph: onnx.GraphProto
    ) -> list[onnx.NodeProto]:
        """The nodes without those that nobody needs any more; initializers that nobody reads go too."""
        used = self._shared.used
        makers = {name: node for node in nodes for name in node.output if name}
        dead: set[int] = set()
        gone: set[str] = set()
        queue = list(freed)
        while queue:
            name = queue.pop()
            if used[name] > 0:
                continue
            gone.add(name)
            node = makers.get(name)
            if node is None or id(node) in dead or any(used[output] > 0 for output in node.output if output):
                continue
            if any(True for _ in subgraphs(node)):
                continue
            dead.add(id(node))
            used.subtract(name for name in node.input if name)
            queue.extend(name for name in node.input if name)
        gone -= {value.name for value in graph.input}  # an input with a default stays one
        kept = [tensor for tensor in graph.initializer if tensor.name not in gone]
        if len(kept) < len(graph.initializer):
            kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
            del graph.initializer[:]
            graph.initializer.extend(kept)
        return [node for node in nodes if id(node) not in dead]
