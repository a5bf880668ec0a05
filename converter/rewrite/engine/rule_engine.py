"""Applies rules (converter/rewrite/engine/node_rule.py) to every node of a model, in rounds, until none of them fires.

A round offers each node of every graph to the rules of its op_type, puts what they give in the nodes' places, infers
shapes and folds constants. The draft of the model lasts through all rounds; only inference reads all of it again. A rule
sees the graph as it was at the beginning of the round. Values that only replaced nodes read are removed with the nodes
that made them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from trtsmith.converter.graph.scopes import Draft, Node, Scope, all_graphs, live_scopes, reads
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.records import Declined, Rewrite
from trtsmith.converter.rewrite.fold import fold_and_infer
from trtsmith.converter.rewrite.freeze import ready_made_flags
from trtsmith.converter.rewrite.target import TENSORRT, Target
from trtsmith.importers.opdef import Refusal
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

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


def apply_rules(
    model: Model, rules: Sequence[NodeRule], target: Target = TENSORRT, rounds: int = ROUNDS
) -> Ruled:
    """Every rule on every node, again and again. `model` has its shapes inferred; so has the result.

    target: the TensorRT that gets the graph, which rules may ask for.

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
    draft = Draft(model)
    for _ in range(rounds):
        fold_and_infer(draft)
        if ledger:
            draft.folded.clear()  # the graph that TensorRT gets has them as constants now
        step = _Round(draft, table, target, ledger, origin)
        step.run()
        if not step.fired:
            changed = ledger or step.declined or _folded_away(model, draft, table, target)
            named = draft.model() if changed else model
            return Ruled(named, _records(named.proto, ledger, origin), tuple(step.declined))
        draft.infer()
    culprits = ", ".join(f"{name} ({count} times)" for name, count in step.fired.most_common(3))
    raise _internal(f"rules do not come to an end: after {rounds} rounds these still fire: {culprits}", model)


_FREEZE = re.compile(r"--freeze (\S+)=\S+")


def _real_flags(scope: Scope, found: re.Match[str]) -> str:
    """The flags for the model's inputs, where a rule names an operand of its node: ready to be pasted."""
    flags = ready_made_flags(scope, found[1])
    return f"{flags}   (with your own value)" if flags else found[0]


def _any_candidate(proto: onnx.ModelProto, table: Mapping[tuple[str, str], object]) -> bool:
    return any(
        (normalise_domain(node.domain), node.op_type) in table
        for graph in all_graphs(proto.graph)
        for node in graph.node
    )


def _folded_away(
    model: Model, draft: Draft, table: Mapping[tuple[str, str], Sequence[NodeRule]], target: Target
) -> bool:
    """Whether constants took the place of a node that a rule takes: as it is, the model would keep the node."""
    gone = {
        node.output[0]
        for node in model.proto.graph.node
        if node.output
        and (normalise_domain(node.domain), node.op_type) in table
        and node.output[0] not in draft.root.producers
    }
    if not gone:
        return False
    return any(
        rule.rewrite(NodeView(node.proto, node.proto.name, node.scope, target=target)) is not None
        for node in Draft(model).root.nodes
        if gone.intersection(node.outputs)
        for rule in table[node.domain, node.op_type]
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
    """One round over one draft. `fired` counts rules by name."""

    def __init__(
        self,
        draft: Draft,
        table: Mapping[tuple[str, str], Sequence[NodeRule]],
        target: Target,
        ledger: dict[str, _Entry],
        origin: dict[str, str],
    ) -> None:
        self.fired: Counter[str] = Counter()
        self.declined: list[Declined] = []
        self._draft = draft
        self._table = table
        self._target = target
        self._ledger = ledger
        self._origin = origin
        self._replacements: defaultdict[Scope, dict[Node, tuple[str, list[onnx.NodeProto]]]] = defaultdict(
            dict
        )

    def run(self) -> None:
        self._offer(self._draft.root)
        for scope, replacements in self._replacements.items():
            self._apply(scope, replacements)

    def _offer(self, scope: Scope) -> None:
        for node in scope.nodes:
            rules = self._table.get((node.domain, node.op_type))
            if rules and (node.domain, node.op_type) not in self._draft.functions and self._take(node, rules):
                continue
            for inner in live_scopes(node):
                self._offer(inner)

    def _take(self, node: Node, rules: Sequence[NodeRule]) -> bool:
        """Offer the node to the rules. Whether one took it."""
        made = node.proto.name in self._origin
        view = NodeView(node.proto, node.proto.name, node.scope, made, self._target)
        refusal: tuple[NodeRule, Refusal] | None = None
        for rule in rules:
            result = rule.rewrite(view)
            if isinstance(result, Replacement):
                name = self._unique(node.proto)
                self.fired[rule.name] += 1
                self._replacements[node.scope][node] = rule.name, self._accept(view, name, rule, result)
                return True
            if result is not None and refusal is None:
                refusal = rule, result
        if refusal is not None:
            self._decline(node, *refusal)
        return False

    def _decline(self, node: Node, rule: NodeRule, refusal: Refusal) -> None:
        name = self._unique(node.proto)
        node.proto.name = name  # so that the plan finds the node by the name in the record
        self._draft.changed()
        shown = "::".join(part for part in (node.domain, node.op_type) if part)
        source = self._ledger.get(self._origin.get(name, ""))
        if source is not None:
            shown += f", made of {source.op_type} {source.node!r}"
        fix = _FREEZE.sub(lambda found: _real_flags(node.scope, found), refusal.fix)
        self.declined.append(Declined(name, shown, rule.name, replace(refusal, fix=fix)))

    def _apply(self, scope: Scope, replacements: Mapping[Node, tuple[str, list[onnx.NodeProto]]]) -> None:
        entered: dict[Node, list[Node]] = {}
        for node in replacements:
            scope.leave(node)
        for node, (_, protos) in replacements.items():
            entered[node] = [scope.enter(proto) for proto in protos]
        scope.replace(entered)
        for node, (rule, _) in replacements.items():
            for made in entered[node]:
                lost = next((name for name in made.inputs if name and scope.holder(name) is None), None)
                if lost is not None:
                    raise _internal(
                        f"rule {rule!r} on {node.op_type} reads {lost!r}, which nothing makes",
                        self._draft.source,
                    )
        self._draft.remove_dead([name for node in replacements for name in reads(node)], scope)

    def _unique(self, node: onnx.NodeProto) -> str:
        """The node's name; another one if it has none or shares it."""
        if node.name and self._draft.names.nodes[node.name] == 1:
            return str(node.name)
        wanted = node.name or next((name for name in node.output if name), node.op_type)
        return self._draft.names.node(wanted)

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
            node.name = self._draft.names.node(f"{key}/{node.op_type}")
            self._origin[node.name] = key
            self._draft.import_domain(normalise_domain(node.domain))
        return list(result.nodes)

    def _check(self, view: NodeView, rule: NodeRule, result: Replacement) -> None:
        """What a rule promises. ConversionError names the rule that broke it."""
        where = f"rule {rule.name!r} on {view.op_type} {view.name!r}"
        made: set[str] = set()
        old = {name for name in view.outputs if name}
        for node in result.nodes:
            for name in node.output:
                if name and name in made:
                    raise _internal(f"{where} makes {name!r} twice", self._draft.source)
                if name:  # an output that is left out is not read by an input that is
                    made.add(name)
        missing = [name for i, name in enumerate(view.outputs) if view.used(i) and name not in made]
        if missing:
            raise _internal(f"{where} does not make the output {missing[0]!r}", self._draft.source)
        defined: set[str] = set()
        for node in result.nodes:
            late = next(
                (n for n in node.input if (n in made and n not in defined) or n in old - defined), None
            )
            if late is not None:
                raise _internal(f"{where} reads {late!r} before it is made", self._draft.source)
            defined.update(node.output)
