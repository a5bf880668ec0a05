"""Declares the phases of rewriting and their order.

Each takes a `Rewriting`, changes its graph in place, and gives the next, with records of what was done. A phase finds the
types of the graph inferred and leaves them so. On the graph that comes out no rule of the target fires any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial

import numpy as np

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.write_back import up_to_date
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.constants import dequantize_constants, fold_generated, fold_moves
from trtsmith.converter.rewrite.custom_ops import PASSES
from trtsmith.converter.rewrite.custom_ops.replace import replace_custom_operators
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView
from trtsmith.converter.rewrite.engine.records import Declined, Pass, Rewrite
from trtsmith.converter.rewrite.engine.rule_engine import apply_rules
from trtsmith.converter.rewrite.fold import fold
from trtsmith.converter.rewrite.freeze import Frozen, freeze_inputs
from trtsmith.converter.rewrite.precision.opset import at_least
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.precision.sums import FLOAT16_SUMS
from trtsmith.converter.rewrite.profile.decisions import decide_by_profile
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.rules.sequences.static_sequences import sequences_rule
from trtsmith.converter.rewrite.separate_outputs import LOST, UNWRITTEN, separate_outputs
from trtsmith.converter.rewrite.separate_outputs import NAME as SEPARATE_OUTPUTS
from trtsmith.converter.rewrite.target import TENSORRT, Fault, Target
from trtsmith.converter.rewrite.types import IoType, legalise_types
from trtsmith.importers.counted import counted

_NOTHING: Mapping[str, np.ndarray] = {}


@dataclass(frozen=True)
class RewriteOptions:
    """The target and the options of a rewrite.

    freeze: values of inputs that become constants. passes, rules: all of them, but where a part is looked at alone.
    profile: the ranges of the inputs' sizes, for which alone the graph has to hold; None: for any.
    step: is told what is done at the moment.
    """

    target: Target = TENSORRT
    freeze: Mapping[str, np.ndarray] = field(default_factory=dict)
    profile: ProfileRanges | None = None
    passes: Sequence[Pass] = PASSES
    rules: Sequence[NodeRule] = RULES
    step: Progress = field(default=steps_of(None), compare=False)

    def legal_rules(self) -> list[NodeRule]:
        """Returns the rules for nodes that the target does not import."""
        return [rule for rule in self.all_rules() if not rule.faults]

    def all_rules(self) -> list[NodeRule]:
        """Returns all rules for the target, including those for its faults."""
        stock = self.target.stock
        rules = [rule for rule in self.rules if rule.concerns(self.target)]
        return [_without(rule, stock) for rule in rules] if stock else rules


def _without(rule: NodeRule, op_types: frozenset[str]) -> NodeRule:
    """The rule without these op_types."""
    return replace(
        rule, op_types=tuple(kind for kind in rule.op_types if kind.rpartition("::")[2] not in op_types)
    )


@dataclass(frozen=True)
class Rewriting:
    """The state of a rewrite: the graph, and the records so far.

    graph:    is changed in place.
    unfolded: the model before its constants were folded for custom operators, until these were looked for.
    settled:  where the graph stood when the rules for what the target does not import had nothing more to do.
    rewrites: nodes that were replaced. declined, refused: nodes that a pass, or a rule, would have taken and did not.
    frozen:   inputs that became constants. io_types: inputs and outputs of another type than the model's.
    reduce:   brings the graph into another precision; None leaves it. precision: what became of it.
    """

    graph: Graph
    options: RewriteOptions
    unfolded: Model | None = None
    settled: int | None = None
    rewrites: tuple[Rewrite, ...] = ()
    declined: tuple[Declined, ...] = ()
    refused: tuple[Declined, ...] = ()
    frozen: tuple[Frozen, ...] = ()
    io_types: tuple[IoType, ...] = ()
    reduce: Callable[[Rewriting], Rewriting] | None = None
    precision: PrecisionReport | None = None

    @property
    def model(self) -> Model:
        """The current graph as a model."""
        return self.graph.model()


@dataclass(frozen=True)
class Paused:
    """A rewrite that stopped between phases. model: its graph. go_on: makes the Rewriting from a graph, with earlier
    records.
    """

    model: Model
    go_on: partial[Rewriting]

    def resumed(self) -> Rewriting:
        return self.go_on(Graph(self.model))


def paused(work: Rewriting) -> Paused:
    """Keeps only the model of a graph, as the graph's tables take several times its memory."""
    known = {f.name: getattr(work, f.name) for f in fields(work) if f.name != "graph"}
    return Paused(work.model, partial(Rewriting, **known))


@dataclass(frozen=True)
class Phase:
    """One phase of rewriting. does: its result, in words for a user."""

    name: str
    does: str
    run: Callable[[Rewriting], Rewriting]


def _freeze(work: Rewriting) -> Rewriting:
    if not work.options.freeze:
        return work
    model, frozen = freeze_inputs(work.model, work.options.freeze)
    work.graph.become(model)
    return replace(work, frozen=frozen)


def _profile(work: Rewriting) -> Rewriting:
    """Applies the profile before anything reads shapes and constants, so that guards and rules see the results."""
    if work.options.profile is None:
        return work
    return replace(work, rewrites=(*work.rewrites, *decide_by_profile(work.graph, work.options.profile)))


def _fold(work: Rewriting) -> Rewriting:
    """Folds constants for the passes, which read computed shapes; rules fold by themselves. Skipped if no pass takes a node.

    Sequences become the tensors in them first: torch's dynamo exporter, unoptimised, splits into one.
    """
    if not _concerned(work):
        return work
    sequences = [rule for rule in work.options.legal_rules() if rule.name == sequences_rule.name]
    if any(kind in sequences_rule.kinds for _, kind in work.graph.kinds()):
        done = apply_rules(work.graph, sequences, work.options.target)
        work = replace(work, rewrites=(*work.rewrites, *done.rewrites))
    unfolded = work.model
    fold(work.graph)
    return replace(work, unfolded=unfolded)


def _custom_ops(work: Rewriting) -> Rewriting:
    if work.unfolded is None:
        return work
    left = {kind for kind in work.graph.kinds() if kind[1] in work.options.target.stock}
    records = replace_custom_operators(work.graph, _concerned(work), left)
    declined = tuple(record for record in records if isinstance(record, Declined))
    rewrites = tuple(record for record in records if isinstance(record, Rewrite))
    found = rewrites or any(record.fatal for record in declined)  # fatal ones were given names
    if not found and work.graph.changed_since(work.unfolded):
        work.graph.become(work.unfolded)
    return replace(work, unfolded=None, rewrites=(*work.rewrites, *rewrites), declined=declined)


def _concerned(work: Rewriting) -> list[Pass]:
    kinds = work.graph.kinds()
    return [one for one in work.options.passes if one.concerns(kinds)]


def _moves(work: Rewriting) -> Rewriting:
    return replace(work, rewrites=(*work.rewrites, *fold_moves(work.graph)))


def _opset(work: Rewriting) -> Rewriting:
    """Converts the model to the opset that a rule needs, if onnx can; else the rule refuses."""
    kinds = {f"{domain}::{name}" if domain else name for domain, name in work.graph.kinds()}
    later = {rule: frozenset(rule.kinds) for rule in work.options.legal_rules() if rule.opset != 1}
    rules = [rule for rule, taken in later.items() if kinds & taken]
    if not rules or work.graph.functions:
        return work
    wanted = 1
    for node in work.graph.nodes():
        kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for rule in rules:
            if kind in later[rule]:
                view = NodeView(up_to_date(node), node.name, node.scope, target=work.options.target)
                wanted = max(wanted, rule.opset_for(view))
    if work.graph.opset("") < wanted:
        with suppress(ConversionError):
            work.graph.become(at_least(work.graph.model(), wanted))
    return work


def _legalise(work: Rewriting) -> Rewriting:
    """Applies the rules, and then the profile again, as it may decide sizes that the rules wrote."""
    legal = _legal(work)
    if work.options.profile is None or len(legal.rewrites) == len(work.rewrites):
        return legal
    decided = _profile(legal)
    return decided if len(decided.rewrites) == len(legal.rewrites) else _legal(decided)


def _legal(work: Rewriting) -> Rewriting:
    rules = work.options.legal_rules()
    done = apply_rules(work.graph, rules, work.options.target, fold_more=fold_generated)
    rewrites = (*work.rewrites, *done.rewrites)
    return replace(work, settled=work.graph.revision, rewrites=rewrites, refused=done.declined)


def _types(work: Rewriting) -> Rewriting:
    """Legalises element types, and then applies the rules again to the retyped nodes."""
    typed = legalise_types(work.graph)
    if not typed.changed:
        return work
    rewrites = (*work.rewrites, *typed.rewrites)
    return _legalise(replace(work, rewrites=rewrites, io_types=typed.io_types))


def _precision(work: Rewriting) -> Rewriting:
    return work if work.reduce is None else work.reduce(work)


def _target_faults(work: Rewriting) -> Rewriting:
    """Applies all rules, as rules may write nodes that other rules take. Skipped if no rule takes any node."""
    rules = work.options.all_rules()
    if work.graph.revision == work.settled and not _any_fault(work, rules):
        return work
    done = apply_rules(work.graph, rules, work.options.target)
    return replace(work, rewrites=(*work.rewrites, *done.rewrites), refused=done.declined)


def _any_fault(work: Rewriting, rules: Sequence[NodeRule]) -> bool:
    wanted = {op_type for rule in rules if rule.faults for op_type in rule.kinds}
    kinds = work.graph.kinds() if wanted else ()
    return any((f"{domain}::{name}" if domain else name) in wanted for domain, name in kinds)


def _byte_constants(work: Rewriting) -> Rewriting:
    return replace(work, rewrites=(*work.rewrites, *dequantize_constants(work.graph)))


def _outputs(work: Rewriting) -> Rewriting:
    records = separate_outputs(work.graph, work.options.target)
    return replace(work, rewrites=(*work.rewrites, *records))


PHASES = (
    Phase("freeze", "inputs with values from the user are constants", _freeze),
    Phase("profile", "constants, branches and axes that the profile's sizes decide are fixed", _profile),
    Phase("fold", "constant subgraphs are folded where a custom operator may read them", _fold),
    Phase("custom_ops", "custom operators with an alias are plugin nodes", _custom_ops),
    Phase(
        "moves", "quantized constants are transposed, cut and joined as DequantizeLinear reads them", _moves
    ),
    Phase(
        "opset",
        "the model's opset has the operators that the rules write for its nodes",
        _opset,
    ),
    Phase(
        "legalise",
        "standard operators that TensorRT does not import are rewritten in those that it does",
        _legalise,
    ),
    Phase("types", "values of unsupported element types have types in which TensorRT computes", _types),
    Phase("precision", "the network is in the requested precision", _precision),
    Phase("target_faults", "known faults of the target are avoided", _target_faults),
    Phase(
        "byte_constants",
        "int8 constants are read by DequantizeLinear alone, as TensorRT requires",
        _byte_constants,
    ),
    Phase("outputs", "outputs share no memory with other values where the target fails on that", _outputs),
)
"""In this order, each once. No other code rewrites a graph for TensorRT."""

_BEFORE_PRECISION = next(index for index, phase in enumerate(PHASES) if phase.run is _precision)


def run_to_precision(model: Model, options: RewriteOptions, before: tuple[Rewrite, ...] = ()) -> Rewriting:
    """Runs the phases before the precision. model: with inferred types. before: records of earlier changes."""
    return _run(PHASES[:_BEFORE_PRECISION], Rewriting(Graph(model), options, rewrites=before))


def run_rules(model: Model, rules: Sequence[NodeRule]) -> Model:
    """The model after these rules alone. model: with inferred types."""
    work = Rewriting(Graph(model), RewriteOptions(passes=(), rules=rules))
    return _legalise(_opset(work)).model


def run_from_precision(work: Rewriting) -> tuple[Rewriting, Model]:
    """Runs the precision and later phases. Also returns the graph right after the precision."""
    precision, *rest = PHASES[_BEFORE_PRECISION:]
    typed = precision.run(work)
    model = typed.model
    return _run(rest, typed), model


def _run(phases: Sequence[Phase], work: Rewriting) -> Rewriting:
    for phase in phases:
        work.options.step(f"rewriting {counted(len(work.graph.root.nodes), 'node')}: {phase.name}")
        work = phase.run(work)
    return work


def known_faults() -> tuple[tuple[str, Fault], ...]:
    """Lists all known faults of TensorRT, each with the name of the rule or phase that avoids it."""
    of_rules = ((rule.name, fault) for rule in RULES for fault in (*rule.faults, *rule.partly))
    return (*of_rules, (SEPARATE_OUTPUTS, UNWRITTEN), (SEPARATE_OUTPUTS, LOST), ("precision", FLOAT16_SUMS))
