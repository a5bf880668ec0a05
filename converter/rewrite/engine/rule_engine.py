"""Applies rules (converter/rewrite/engine/node_rule.py) to every node of a model, in rounds, until none of them fires.

A round offers each node of every graph to the rules of its op_type, puts what they give in the nodes' places, infers
shapes and folds constants. The graph is changed in place; a rule sees it as it was at the beginning of the round. Values
that only replaced nodes read are removed with the nodes that made them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope, live_scopes
from trtsmith.converter.graph.write_back import up_to_date
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.records import Declined, Rewrite
from trtsmith.converter.rewrite.fold import fold_and_infer
from trtsmith.converter.rewrite.freeze import ready_made_flags
from trtsmith.converter.rewrite.target import TENSORRT, Target
from trtsmith.importers.builder import OldOpsetError
from trtsmith.importers.opdef import Refusal
from trtsmith.importers.registry import normalise_domain

ROUNDS = 12
"""More than the longest chain of rules in use (5, a loss by its function) needs; a rule that loops never ends."""


@dataclass(frozen=True)
class Ruled:
    """The effect of the rules, one record for each original node.

    changed: whether they found anything. If not, the graph is as it was.
    """

    rewrites: tuple[Rewrite, ...] = ()
    declined: tuple[Declined, ...] = ()
    changed: bool = False


@dataclass
class _NodeHistory:
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
    graph: Graph,
    rules: Sequence[NodeRule],
    target: Target = TENSORRT,
    rounds: int = ROUNDS,
    fold_more: Callable[[Graph], tuple[Rewrite, ...]] | None = None,
) -> Ruled:
    """Applies every rule to every node until none fires. Types are inferred before and afterwards.

    target: the TensorRT that gets the graph, which rules may ask for. fold_more: folds what fold.py does not,
    once no rule fires.
    ConversionError, with the rule's name, if rules still fire after `rounds` rounds or one breaks its contract.
    """
    table: dict[tuple[str, str], list[NodeRule]] = defaultdict(list)
    for rule in rules:
        for op_type in rule.kinds:
            domain, _, name = op_type.rpartition("::")
            table[domain, name].append(rule)
    if table.keys().isdisjoint(graph.kinds()):
        return Ruled()
    before: Model | None = graph.model()
    ledger: dict[str, _NodeHistory] = {}  # by name of the original node
    origin: dict[str, str] = {}  # name of a node that a rule made: name of the original node
    folded: tuple[Rewrite, ...] = ()
    for _ in range(rounds):
        fold_and_infer(graph)
        if ledger:
            graph.folded.clear()  # the graph that TensorRT gets has them as constants now
        step = _Round(graph, table, target, ledger, origin)
        step.run()
        if not step.fired and fold_more is not None:
            folded, fold_more = fold_more(graph), None
            if folded:
                before = None
                continue
        if not step.fired:
            changed = bool(before is None or step.declined or _folded_away(before, graph, table, target))
            if before is not None and not changed and graph.changed_since(before):
                graph.become(before)  # constants were folded for nothing
            records = (*folded, *_records(graph, ledger, origin))
            return Ruled(records, tuple(step.declined), changed or bool(folded))
        before = None  # nobody goes back to it: a copy of the model less in memory
        graph.infer()
    culprits = ", ".join(f"{name} ({count} times)" for name, count in step.fired.most_common(3))
    raise _internal(
        f"rules do not terminate: after {rounds} rounds these still fire: {culprits}", graph.source
    )


UNREADABLE = "cannot read it"
"""By which a refusal is known that is our mistake if the model is sound."""

_UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a rule runs into where a node is not what its operator's specification has."""

_FREEZE = re.compile(r"--freeze (\S+)=\S+")


def _usable_fix(scope: Scope, fix: str) -> str:
    """The fix with flags for the model's inputs, ready to be pasted, where a rule names an operand of its node.

    --freeze takes inputs of the model alone: of another value, that has to become a constant elsewhere.
    """
    found = _FREEZE.search(fix)
    if found is None:
        return fix
    name, flags = found[1], ready_made_flags(scope, found[1])
    if flags:
        return f"{fix[: found.start()]}{flags}   (with your own value){fix[found.end() :]}"
    holder = scope.holder(name)
    if holder is not None and holder.outer is None and name not in holder.producers:
        return fix
    return (
        f"make {name!r} a constant where the model is exported; --freeze works only for inputs of the model"
    )


def _folded_away(
    model: Model, graph: Graph, table: Mapping[tuple[str, str], Sequence[NodeRule]], target: Target
) -> bool:
    """Whether constants took the place of a node that a rule takes: as it is, the model would keep the node."""
    gone = {
        node.output[0]
        for node in model.proto.graph.node
        if node.output
        and (normalise_domain(node.domain), node.op_type) in table
        and node.output[0] not in graph.root.producers
    }
    if not gone:
        return False
    return any(
        rule.result(NodeView(node.proto, node.name, node.scope, target=target)) is not None
        for node in Graph(model).root.nodes
        if gone.intersection(node.outputs)
        for rule in table.get(node.kind, ())
    )


def _records(
    graph: Graph, ledger: Mapping[str, _NodeHistory], origin: Mapping[str, str]
) -> tuple[Rewrite, ...]:
    made: dict[str, list[str]] = defaultdict(list)
    for node in graph.nodes() if ledger else ():
        name = sys.intern(node.name)  # the record keeps it: one string with the one in `origin`
        if name in origin:
            made[origin[name]].append(name)
    return tuple(entry.record(made[name]) for name, entry in ledger.items())


def _internal(what: str, model: Model) -> ConversionError:
    return ConversionError(
        what, str(model.path), "rules that terminate", "report it with the model: this is a bug in trtsmith"
    )


def _unreadable(rule: NodeRule, error: Exception) -> Refusal:
    """ONNX's checks see types and shapes, and not what values mean: a pool's window may have a negative size."""
    if isinstance(error, OldOpsetError) and error.needed:
        needed = f"opset {error.needed}"
        return Refusal(
            f"the rule {rule.name!r} needs {needed}: {error}",
            needed,
            f"convert the model to {needed} or later",
        )
    return Refusal(
        f"the rule {rule.name!r} {UNREADABLE} ({type(error).__name__}: {error})"[:400],
        "attributes, inputs and shapes as its operator's specification has them",
        "correct the node where the model is exported; if onnxruntime runs the model, report it with the model",
    )


class _Round:
    """One round over one graph. `fired` counts rules by name."""

    def __init__(
        self,
        graph: Graph,
        table: Mapping[tuple[str, str], Sequence[NodeRule]],
        target: Target,
        ledger: dict[str, _NodeHistory],
        origin: dict[str, str],
    ) -> None:
        self.fired: Counter[str] = Counter()
        self.declined: list[Declined] = []
        self._graph = graph
        self._table = table
        self._target = target
        self._ledger = ledger
        self._origin = origin
        self._replacements: defaultdict[Scope, dict[Node, tuple[str, list[onnx.NodeProto]]]] = defaultdict(
            dict
        )

    def run(self) -> None:
        self._offer(self._graph.root)
        for scope, replacements in self._replacements.items():
            self._apply(scope, replacements)

    def _offer(self, scope: Scope) -> None:
        table, functions = self._table, self._graph.functions
        for node in scope.nodes:
            kind = node.domain, node.op_type
            rules = table.get(kind)
            if rules and kind not in functions and self._take(node, rules):
                continue
            if node.scopes:
                for inner in live_scopes(node):
                    self._offer(inner)

    def _take(self, node: Node, rules: Sequence[NodeRule]) -> bool:
        """Offer the node to the rules. Whether one took it."""
        proto = up_to_date(node)
        view = NodeView(proto, proto.name, node.scope, self._origin, self._target)
        refusal: tuple[NodeRule, Refusal] | None = None
        for rule in rules:
            try:
                result = rule.result(view)
            except _UNREADABLE as error:  # one node: the others are still looked at
                result = _unreadable(rule, error)
            if isinstance(result, Replacement):
                name = self._graph.unique_name(node)
                self.fired[rule.name] += 1
                self._replacements[node.scope][node] = rule.name, self._accept(view, name, rule, result)
                return True
            if result is not None and refusal is None:
                refusal = rule, result
        if refusal is not None:
            self._decline(node, *refusal)
        return False

    def _decline(self, node: Node, rule: NodeRule, refusal: Refusal) -> None:
        name = self._graph.unique_name(node)
        if name != node.name:
            node.rename(name)  # so that the plan finds the node by the name in the record
        shown = "::".join(part for part in node.kind if part)
        source = self._ledger.get(self._origin.get(name, ""))
        if source is not None:
            shown += f", made of {source.op_type} {source.node!r}"
        usable = replace(refusal, fix=_usable_fix(node.scope, refusal.fix))
        self.declined.append(Declined(name, shown, rule.name, usable))

    def _apply(self, scope: Scope, replacements: Mapping[Node, tuple[str, list[onnx.NodeProto]]]) -> None:
        entered: dict[Node, list[Node]] = {}
        for node in replacements:
            scope.leave(node)
        for node, (_, protos) in replacements.items():
            entered[node] = [scope.enter(proto, adopted=True) for proto in protos]
        scope.replace(entered)
        for node, (rule, _) in replacements.items():
            for made in entered[node]:
                lost = next((name for name in made.inputs if name and scope.holder(name) is None), None)
                if lost is not None:
                    raise _internal(
                        f"rule {rule!r} on {node.op_type} reads {lost!r}, which nothing makes",
                        self._graph.source,
                    )
        self._graph.remove_dead([name for node in replacements for name in node.reads()], scope)

    def _accept(self, view: NodeView, name: str, rule: NodeRule, result: Replacement) -> list[onnx.NodeProto]:
        """Copies of the nodes of a replacement, named, and the ledger brought up to date."""
        graph = self._graph
        self._check(view, rule, result)
        key = self._origin.get(name, name)
        shown = "::".join(part for part in (view.domain, view.op_type) if part)
        entry = self._ledger.setdefault(key, _NodeHistory(key, shown))
        entry.steps.append((rule.name, result.what))
        entry.notes.extend(result.notes)
        if result.numerics:
            entry.numerics.append(result.numerics)
        nodes = [graph.adopt(node) for node in result.nodes]
        for node in nodes:
            made = sys.intern(graph.names.node(f"{key}/{node.op_type}"))
            node.name = made
            self._origin[made] = key
            graph.import_domain(normalise_domain(node.domain))
        return nodes

    def _check(self, view: NodeView, rule: NodeRule, result: Replacement) -> None:
        """What a rule promises. ConversionError names the rule that broke it."""
        made: set[str] = set()
        nodes = [(list(node.input), [name for name in node.output if name]) for node in result.nodes]
        for _, outputs in nodes:
            for name in outputs:  # an output that is left out is not read by an input that is
                if name in made:
                    raise self._broken(view, rule, f"makes {name!r} twice")
                made.add(name)
        missing = [name for i, name in enumerate(view.outputs) if view.used(i) and name not in made]
        if missing:
            raise self._broken(view, rule, f"does not make the output {missing[0]!r}")
        later = made.union(filter(None, view.outputs))
        for inputs, outputs in nodes:
            late = next((name for name in inputs if name in later), None)
            if late is not None:
                raise self._broken(view, rule, f"reads {late!r} before it is made")
            later.difference_update(outputs)

    def _broken(self, view: NodeView, rule: NodeRule, what: str) -> ConversionError:
        return _internal(f"rule {rule.name!r} on {view.op_type} {view.name!r} {what}", self._graph.source)
