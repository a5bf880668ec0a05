"""Computes the verdict of comparisons: passes only if every output was compared and agrees."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_NOT_COMPARED, EXIT_OK, TrtsmithError
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.cost.precision_cost import PrecisionCost, cost_from_json
from trtsmith.converter.verify.proof import Doubt, Proof
from trtsmith.converter.verify.tolerances import Tolerances

ENDS: Mapping[str, str] = {"min": "smallest", "opt": "usual", "max": "largest"}
"""The sizes of a profile, in words."""

RAN = ("graphs", "original", "nothing")
"""The graph from which the engine is built, and where it is compared with it the original; that alone; neither."""

AGREE, IN_PART, NOT_COMPARABLE, DISAGREE = "agree", "agrees in part", "not comparable", "disagree"
TOO_COSTLY = "costs too much"
STATUSES = (AGREE, IN_PART, TOO_COSTLY, NOT_COMPARABLE, DISAGREE)
"""Of a verdict: only the first is a pass. IN_PART: some outputs agree, and others were not compared. TOO_COSTLY: every
output agrees with the graph in 8 bits, which changes one of the original by more than --max-cost."""

GRAPH_ONLY, OWN_DEFINITION = "graph only", "own definition"
"""What a status may rest on: the graph from which the engine is built, which was not run itself; a definition of ours that
both sides use for an operator that onnxruntime lacks."""

NOT_COMPARED = "not compared"
"""The status of an output that could not be compared, where the user accepts that."""


@dataclass(frozen=True)
class LeftOut:
    """An output that was not compared, or of which agreement proves nothing.

    why: one sentence. accepted: whether the user said that this output need not be compared (--not-compared).
    """

    output: str
    why: str
    accepted: bool = False


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison.

    status:     "agree", "agrees in part", "disagree" or "not comparable"; only `agree` is a pass.
    reason:     one sentence.
    engine_run: whether the engine itself was run, or only the graphs from which it is built.
    inputs:     where the inputs come from.
    comparisons: of each output, and of each set of inputs.
    meanings:   what made-up inputs were taken for, one sentence for each.
    left_out:   outputs that were not compared, or of which agreement proves nothing, and why.
    precision:  what the default tolerance of an engine's outputs assumes; "" where no engine was run.
    not_run:    why the engine was not run; "" where it was.
    warnings:   what the user should know of the engine and its run, one sentence each.
    ran:        what was run of the two graphs: one of RAN.
    references: what is to be known of the reference, one sentence each: which of onnxruntime's two runs it is, and of which
        operators our own definition stands for onnxruntime's.
    cost:       what int8 or fp8 changes against the original; None in other precisions.
    basis:      what the status rests on, where that is less than the engine itself and a computation other than ours.
    """

    status: str
    reason: str
    engine_run: bool
    inputs: str
    comparisons: tuple[Comparison, ...] = ()
    meanings: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    precision: str = ""
    not_run: str = ""
    warnings: tuple[str, ...] = ()
    ran: str = "graphs"
    references: tuple[str, ...] = ()
    cost: PrecisionCost | None = None
    basis: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The status as people read it everywhere, with what it rests on."""
        return in_words(self.status, self.basis)

    @property
    def told_run(self) -> str:
        """What was run in the engine's place, and why; "" where the engine was run."""
        if self.engine_run:
            return ""
        return _NO_ENGINE[self.ran] + (f": {self.not_run}" if self.not_run else "")

    @property
    def passed(self) -> bool:
        """Whether every output was compared and agrees, but those that the user accepts as not compared."""
        return self.status == AGREE

    @property
    def exit_code(self) -> int:
        """Of a command that ends with this verdict. What could not be compared, wholly or in part, is no disagreement."""
        if self.passed:
            return EXIT_OK
        return EXIT_DISAGREE if self.status in (DISAGREE, TOO_COSTLY) else EXIT_NOT_COMPARED

    @property
    def agrees(self) -> bool:
        """Whether something was compared, and all of it agrees."""
        return self.status in (AGREE, IN_PART, TOO_COSTLY)

    @property
    def outputs(self) -> dict[str, str]:
        """The status of each output: "agree", "disagree", "not comparable", or "not compared" where that is accepted."""
        found = dict.fromkeys((c.output for c in self.comparisons), AGREE)
        found |= {one.output: NOT_COMPARED if one.accepted else NOT_COMPARABLE for one in self.left_out}
        return found | {c.output: DISAGREE for c in self.comparisons if not c.agrees}

    def to_json(self) -> dict[str, Any]:
        """The verdict in JSON's types, which have neither infinity nor NaN: a relative error against zeros is null."""
        document = asdict(self)
        for comparison in document["comparisons"]:
            for name in ("relative", "expected", "actual"):
                value = comparison[name]
                if value is not None and not math.isfinite(value):
                    comparison[name] = None if name == "relative" else str(value)
        for one in (document["cost"] or {}).get("outputs", ()):
            one["error"] = one["error"] if math.isfinite(one["error"]) else None
        return document | {"outputs": self.outputs}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Verdict:
        """The verdict of which `to_json` made this. KeyError, TypeError or ValueError for anything else."""
        values = {name: value for name, value in document.items() if name != "outputs"}
        values["comparisons"] = tuple(_comparison(one) for one in values["comparisons"])
        values["left_out"] = tuple(LeftOut(**one) for one in values["left_out"])
        for name in ("meanings", "warnings", "references", "basis"):
            values[name] = tuple(values.get(name, ()))
        values["cost"] = cost_from_json(values["cost"]) if values.get("cost") else None
        return Verdict(**values)


def in_words(status: str, basis: Sequence[str]) -> str:
    """agree (graph only; own definition)"""
    return f"{status} ({'; '.join(basis)})" if basis and status != NOT_COMPARABLE else status


_NO_ENGINE = {
    "graphs": "the graph from which the engine is built was run in onnxruntime; the engine itself was not run",
    "original": "the original was run in onnxruntime; neither the graph from which the engine is built nor the engine was",
    "nothing": "neither the graph from which the engine is built nor the engine was run",
}


def _comparison(document: Mapping[str, Any]) -> Comparison:
    values = dict(document)
    for name in ("shape", "worst", "slice"):
        values[name] = tuple(values[name])
    values["relative"] = math.inf if values["relative"] is None else values["relative"]
    for name in ("expected", "actual"):
        values[name] = None if values[name] is None else float(values[name])
    return Comparison(**values)


NO_DOUBT = Proof()


def verdict_of(
    comparisons: tuple[Comparison, ...],
    inputs: str,
    *,
    engine_run: bool,
    excluded: Mapping[str, str] | None = None,
    unproven: Mapping[str, str] | None = None,
    proof: Proof = NO_DOUBT,
    tolerances: Tolerances | None = None,
    amplified: Mapping[str, float] | None = None,
) -> Verdict:
    """The verdict on a set of comparisons. Nothing compared is not a pass.

    excluded: outputs that were not compared; by name, why. unproven: those of which rounding changes so much that agreement
    proves nothing, likewise. tolerances: of the user, which name the outputs that need not be compared.
    amplified: what rounding alone changes of outputs that therefore may be further off than usual.
    """
    accepted = frozenset() if tolerances is None else tolerances.not_compared
    wrong = [c for c in comparisons if not c.agrees]
    doubts = {**proof.doubts, **_without_proof(comparisons, proof.constant)}
    settled = {name for name, doubt in doubts.items() if _settled(name, doubt, comparisons, proof)}
    left_out = {n: one.sentence(n) for n, one in doubts.items() if n not in settled}
    left_out |= {n: why for n, why in (unproven or {}).items() if n not in left_out} | dict(excluded or {})
    found = Verdict(
        DISAGREE,
        _told(wrong),
        engine_run,
        inputs,
        comparisons,
        left_out=tuple(
            LeftOut(output, why, output in accepted)
            for output, why in left_out.items()
            if output not in {c.output for c in wrong}
        ),
        basis=() if engine_run else (GRAPH_ONLY,),
    )
    if wrong:
        return found
    little = [f"{name!r} proves little: {doubts[name].why}" for name in settled if name not in left_out]
    judged = _without_errors(found, amplified or {})
    return replace(judged, reason="; ".join((judged.reason, *sorted(little))))


def _settled(name: str, doubt: Doubt, comparisons: Sequence[Comparison], proof: Proof) -> bool:
    """Whether an output that proves little agrees all the same: it is equal to the last bit wherever it was compared."""
    mine = [c for c in comparisons if c.output == name]
    return bool(mine) and all(c.equal for c in mine) and proof.settles(doubt)


def _told(wrong: Sequence[Comparison]) -> str:
    return "; ".join(f"{c.output}{f' at {c.at}' if c.at else ''}: {c.reason}" for c in wrong)


@dataclass(frozen=True)
class OtherSizes:
    """What came of other sizes than the usual ones: the ends of a profile, or further profiles, "profile 1".

    graphs: which were compared, where they are not those of the usual sizes. comparisons: of the sizes where both ran.
    failed: by size, why one did not run. fix: what helps then. unknown: by size, why it was not tried.
    baselines: of the sizes where both ran and agree (verify.baseline.Baseline).
    """

    graphs: str = ""
    comparisons: tuple[Comparison, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    fix: str = ""
    unknown: Mapping[str, str] = field(default_factory=dict)
    baselines: Mapping[str, Any] = field(default_factory=dict)


def with_other_sizes(verdict: Verdict, sizes: OtherSizes, accepted: Collection[str] = ()) -> Verdict:
    """The verdict on the usual sizes, and on the others: it agrees only where both graphs run at all that were tried.

    Outputs that the verdict leaves out are left out there, too. accepted: outputs that need not be compared.
    """
    left = {one.output for one in verdict.left_out}
    there = tuple(c for c in sizes.comparisons if c.output not in left)
    failed = [*sizes.failed.values(), *([sizes.fix] if sizes.failed else [])]
    told = [*failed, *sizes.unknown.values()]
    if there:
        ends = " and ".join(dict.fromkeys(ENDS.get(c.at, c.at) for c in there))
        where = f"at the {ends} sizes" if there[0].at in ENDS else f"in {ends}"
        worst = max(c.relative for c in there)
        told.insert(0, f"{where}{sizes.graphs} {worst:.1e}")
    ran = 1 + len({c.at for c in sizes.comparisons})
    few = verdict.agrees and sizes.failed
    counted = f"{ran} of {ran + len(sizes.failed)} sizes compared: " if few else ""
    comparisons = (*(replace(c, at=c.at or "opt") for c in verdict.comparisons), *there)
    doubts = _without_proof(comparisons, {c.output for c in comparisons})
    nowhere = {name: doubt.sentence(name) for name, doubt in doubts.items()}
    wrong = [c for c in there if not c.agrees]
    known = {*left, *(c.output for c in wrong)}
    more = tuple(LeftOut(n, why, n in accepted) for n, why in nowhere.items() if n not in known)
    found = replace(
        verdict,
        comparisons=comparisons if told else verdict.comparisons,
        left_out=(*verdict.left_out, *more),
        reason="; ".join((counted + verdict.reason, *(one.why for one in more), *told)),
    )
    if wrong:
        reasons = (*((verdict.reason,) if verdict.status == DISAGREE else ()), _told(wrong), *failed)
        return replace(found, status=DISAGREE, reason="; ".join(reasons))
    if verdict.agrees and (sizes.failed or not all(one.accepted for one in more)):
        return replace(found, status=IN_PART)
    return found


def _without_errors(verdict: Verdict, amplified: Mapping[str, float]) -> Verdict:
    """The verdict with the status and the reason that its comparisons and the outputs left out give."""
    counted = set(verdict.outputs) - {one.output for one in verdict.left_out if one.accepted}
    agree = [name for name, status in verdict.outputs.items() if status == AGREE]
    if not agree:
        reason = "; ".join(one.why for one in verdict.left_out) or "no output was compared"
        return replace(verdict, status=NOT_COMPARABLE, reason=reason)
    worst = max((c for c in verdict.comparisons if c.output in agree), key=lambda c: c.relative)
    error = f"largest relative error {worst.relative:.1e}"
    if worst.relative and worst.output in amplified:
        error += (
            f" in {worst.output!r}, of which rounding alone changes {amplified[worst.output]:.1e}: "
            "the network amplifies it"
        )
    told = dict.fromkeys(
        f"; {c.output}{f' at {c.at}' if c.at else ''}: {c.meaning}"
        for c in verdict.comparisons
        if c.meaning and c.output in agree
    )
    error += "".join(told)
    accepted = len(verdict.outputs) - len(counted)
    error += f"; {accepted} not compared, as accepted" if accepted else ""
    if len(agree) == len(counted):
        return replace(verdict, status=AGREE, reason=error)
    reason = f"{len(agree)} of {len(verdict.outputs)} outputs compared: {error}"
    return replace(verdict, status=IN_PART, reason=reason)


def _without_proof(comparisons: tuple[Comparison, ...], constant: Collection[str]) -> dict[str, Doubt]:
    """Outputs that agree and say next to nothing. One that is finite nowhere for any of the inputs is one of them."""
    found = {}
    for name in dict.fromkeys(c.output for c in comparisons):
        mine = [c for c in comparisons if c.output == name]
        nowhere = next((c for c in mine if not c.compared and c.shape and 0 not in c.shape), None)
        silent = nowhere or next((c for c in mine if all(one.nothing for one in mine)), None)
        if silent is not None and silent.nothing and (nowhere or name not in constant):
            at = f" at {silent.at}" if silent.at and nowhere else ""
            why = f"{silent.nothing}{at}, in the reference too"
            found[name] = Doubt(why, equal_settles=nowhere is None)
    return found


def not_comparable(which: str, error: TrtsmithError, inputs: str, ran: str) -> Verdict:
    """The verdict where a graph cannot be run, with what would make it comparable. which: such as "original"."""
    problem = error.problems[0]
    return Verdict(
        NOT_COMPARABLE, f"the {which}: {problem.what.rstrip('.')}; {problem.fix}", False, inputs, ran=ran
    )
