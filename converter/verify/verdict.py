"""Computes the verdict of comparisons: passes only if every output was compared and agrees."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_NOT_COMPARED, EXIT_OK, TrtsmithError
from trtsmith.converter.verify import verdict_words
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.cost.precision_cost import PrecisionCost, cost_from_json
from trtsmith.converter.verify.findings import NOT_FINITE, Finding, finding
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
    """An output that was not compared, or whose agreement proves nothing.

    finding: why. accepted: whether the user said that this output need not be compared (--not-compared).
    """

    finding: Finding
    accepted: bool = False

    @property
    def output(self) -> str:
        """The output's name."""
        return self.finding.output

    @property
    def why(self) -> str:
        """One sentence."""
        return verdict_words.sentence(self.finding)


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison, as data. `reason` and `advice` say it in words (verdict_words).

    status:     "agree", "agrees in part", "disagree" or "not comparable"; only `agree` is a pass.
    engine_run: whether the engine itself was run, or only the graphs from which it is built.
    inputs:     where the inputs come from.
    comparisons: of each output, and of each set of inputs.
    meanings:   what made-up inputs were taken for, one sentence for each.
    left_out:   outputs that were not compared, or of which agreement proves nothing, and why.
    findings:   what else was found, on the reference, on other sizes, on outputs that prove little.
    precision:  what the default tolerance of an engine's outputs assumes; "" where no engine was run.
    not_run:    why the engine was not run; "" where it was.
    warnings:   what the user should know of the engine and its run, one sentence each.
    ran:        what was run of the two graphs: one of RAN.
    cost:       what int8 or fp8 changes against the original; None in other precisions.
    basis:      what the status rests on, where that is less than the engine itself and a computation other than ours.
    """

    status: str
    engine_run: bool
    inputs: str
    comparisons: tuple[Comparison, ...] = ()
    meanings: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    findings: tuple[Finding, ...] = ()
    precision: str = ""
    not_run: str = ""
    warnings: tuple[str, ...] = ()
    ran: str = "graphs"
    cost: PrecisionCost | None = None
    basis: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\nnext: ".join(filter(None, (f"{self.words}: {self.reason}", self.advice)))

    @property
    def reason(self) -> str:
        """The finding, in one sentence."""
        return verdict_words.reason(self._told)

    @property
    def advice(self) -> str:
        """One command or action that changes the verdict or strengthens it; "" for a plain agreement."""
        return verdict_words.advice(self._told)

    @property
    def _told(self) -> verdict_words.Told:
        left = [(one.finding, one.accepted) for one in self.left_out]
        told = self.findings, self.cost, self.engine_run
        return verdict_words.Told(self.comparisons, self.outputs, left, *told)

    @property
    def told_run(self) -> str:
        """The graph that ran instead of the engine, and why; "" where the engine was run."""
        return "" if self.engine_run else verdict_words.told_run(self.ran, self.not_run)

    @property
    def references(self) -> tuple[str, ...]:
        """Remarks on the reference, one sentence each."""
        return verdict_words.notes(self.findings)

    @property
    def words(self) -> str:
        """The status as people read it everywhere, with what it rests on."""
        return verdict_words.in_words(self.status, self.basis)

    @property
    def passed(self) -> bool:
        """Whether every output was compared and agrees, but those that the user accepts as not compared."""
        return self.status == AGREE

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this verdict. Outputs that could not be compared are no disagreement."""
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
        """Returns the verdict in JSON's types, without infinity and NaN: a relative error against zeros is null."""
        document = asdict(self)
        for comparison in document["comparisons"]:
            for name in ("relative", "expected", "actual"):
                value = comparison[name]
                if value is not None and not math.isfinite(value):
                    comparison[name] = None if name == "relative" else str(value)
        for one in (document["cost"] or {}).get("outputs", ()):
            one["error"] = one["error"] if math.isfinite(one["error"]) else None
        left_out = [
            {"output": o.output, "why": o.why, "accepted": o.accepted, "finding": o.finding.to_json()}
            for o in self.left_out
        ]
        words = {"status": self.status, "reason": self.reason, "advice": self.advice}
        lists = {"left_out": left_out, "findings": [one.to_json() for one in self.findings]}
        return words | document | lists | {"references": self.references, "outputs": self.outputs}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Verdict:
        """Reads the verdict that `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        told = ("reason", "advice", "references", "outputs")
        values = {name: value for name, value in document.items() if name not in told}
        values["comparisons"] = tuple(_comparison(one) for one in values["comparisons"])
        values["findings"] = tuple(map(Finding.from_json, values.get("findings", ())))
        values["left_out"] = tuple(
            LeftOut(Finding.from_json(one["finding"]), one["accepted"]) for one in values["left_out"]
        )
        for name in ("meanings", "warnings", "basis"):
            values[name] = tuple(values.get(name, ()))
        values["cost"] = cost_from_json(values["cost"]) if values.get("cost") else None
        return Verdict(**values)


def _comparison(document: Mapping[str, Any]) -> Comparison:
    values = dict(document)
    for name in ("shape", "worst", "slice"):
        values[name] = tuple(values[name])
    values["relative"] = math.inf if values["relative"] is None else values["relative"]
    for name in ("expected", "actual"):
        values[name] = None if values[name] is None else float(values[name])
    return Comparison(**values)


@dataclass(frozen=True)
class Proof:
    """The grounds on which agreement rests.

    doubts: by output, why agreement proves little for these inputs. constant: outputs that are the same for all inputs, as
    the graph shows. given: whether the user gave the inputs and the outputs to compare with.
    """

    doubts: Mapping[str, Finding] = field(default_factory=dict)
    constant: Collection[str] = ()
    given: bool = False

    def doubted(self, comparisons: tuple[Comparison, ...]) -> tuple[list[Finding], dict[str, Finding]]:
        """Returns doubts on outputs that prove little: of those that agree all the same, and by name of the others."""
        doubts = {**self.doubts, **_without_proof(comparisons, self.constant)}
        settled = [doubt for doubt in doubts.values() if self._settles(doubt, comparisons)]
        return settled, {name: doubt for name, doubt in doubts.items() if doubt not in settled}

    def _settles(self, doubt: Finding, comparisons: tuple[Comparison, ...]) -> bool:
        """Whether the output agrees all the same: it ran, and is equal to the last bit wherever it was compared.

        NaN everywhere settles nothing: a mistake in the model or its inputs gives it on both sides. Nor do outputs of which
        all are empty.
        """
        mine = [c for c in comparisons if c.output == doubt.output]
        return (
            (doubt.kind in ("trivial", "unchanging") or (self.given and doubt.kind != NOT_FINITE))
            and bool(mine)
            and all(c.equal for c in mine)
            and any(c.compared for c in comparisons)
        )


NO_DOUBT = Proof()


def verdict_of(
    comparisons: tuple[Comparison, ...],
    inputs: str,
    *,
    engine_run: bool,
    left: Mapping[str, Finding] | None = None,
    findings: Sequence[Finding] = (),
    proof: Proof = NO_DOUBT,
    tolerances: Tolerances | None = None,
) -> Verdict:
    """Computes the verdict on a set of comparisons. Without any comparison it is not a pass.

    left: outputs that were not compared, or of which rounding changes so much that agreement proves nothing; by name, why.
    findings: on outputs that agree. tolerances: of the user, which name the outputs that need not be compared.
    """
    accepted = frozenset() if tolerances is None else tolerances.not_compared
    wrong = {c.output for c in comparisons if not c.agrees}
    little, unsettled = proof.doubted(comparisons)
    left_out = unsettled | dict(left or {})
    found = Verdict(
        DISAGREE,
        engine_run,
        inputs,
        comparisons,
        left_out=tuple(LeftOut(why, name in accepted) for name, why in left_out.items() if name not in wrong),
        findings=()
        if wrong
        else (*findings, *(replace(one, at="") for one in little if one.output not in left_out)),
        basis=() if engine_run else (GRAPH_ONLY,),
    )
    if wrong:
        return found
    statuses = set(found.outputs.values())
    if AGREE not in statuses:
        return replace(found, status=NOT_COMPARABLE)
    return replace(found, status=IN_PART if NOT_COMPARABLE in statuses else AGREE)


@dataclass(frozen=True)
class OtherSizes:
    """The results at other sizes than the usual ones: the ends of a profile, or further profiles, "profile 1".

    comparisons: of the sizes where both graphs ran. failed: by size, why one did not run. unknown: by size, what else could
    not be compared. fix: what helps where one did not run. own_precision: whether the graphs are those before a precision
    was chosen. baselines: of the sizes where both ran and agree (verify.baseline.Baseline).
    """

    comparisons: tuple[Comparison, ...] = ()
    failed: Mapping[str, Finding] = field(default_factory=dict)
    unknown: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    fix: Finding | None = None
    own_precision: bool = False
    baselines: Mapping[str, Any] = field(default_factory=dict)

    def findings(self, there: Sequence[Comparison], *, agrees: bool) -> list[Finding]:
        """Lists the largest error of `there`, what could not be compared, and what helps. agrees: whether the usual sizes
        do.
        """
        told = [*self.failed.values(), *chain.from_iterable(self.unknown.values())]
        places = list(dict.fromkeys(c.at for c in there))
        if places:
            kind = "other sizes" if places[0] in ENDS else "other profiles"
            graphs = " in the model's own precision" if self.own_precision else ""
            figures = {"ends": " and ".join(ENDS.get(at, at) for at in places), "graphs": graphs}
            told.insert(0, finding(kind, **figures, error=max(c.relative for c in there), places=places))
        if self.failed and agrees:
            ran = 1 + len({c.at for c in self.comparisons})
            told.append(finding("sizes compared", ran=ran, of=ran + len(self.failed)))
        return [*told, *([self.fix] if self.fix is not None else [])]


def with_other_sizes(verdict: Verdict, sizes: OtherSizes, accepted: Collection[str] = ()) -> Verdict:
    """Combines the verdicts on the usual sizes and on others: agrees only if both graphs run at every size tried.

    Outputs that the verdict leaves out are left out there, too. accepted: outputs that need not be compared.
    """
    left = {one.output for one in verdict.left_out}
    there = tuple(c for c in sizes.comparisons if c.output not in left)
    told = sizes.findings(there, agrees=verdict.agrees)
    comparisons = (*(replace(c, at=c.at or "opt") for c in verdict.comparisons), *there)
    wrong = {c.output for c in there if not c.agrees}
    doubts = _without_proof(comparisons, {c.output for c in comparisons})
    more = tuple(LeftOut(why, n in accepted) for n, why in doubts.items() if n not in left | wrong)
    found = replace(
        verdict,
        comparisons=comparisons if told else verdict.comparisons,
        left_out=(*verdict.left_out, *more),
        findings=(*verdict.findings, *told),
    )
    if wrong:
        return replace(found, status=DISAGREE)
    if verdict.agrees and (sizes.failed or not all(one.accepted for one in more)):
        return replace(found, status=IN_PART)
    return found


def _without_proof(comparisons: tuple[Comparison, ...], constant: Collection[str]) -> dict[str, Finding]:
    """Outputs that agree and say next to nothing. One that is finite nowhere for any of the inputs is one of them."""
    found = {}
    for name in dict.fromkeys(c.output for c in comparisons):
        mine = [c for c in comparisons if c.output == name]
        nowhere = next((c for c in mine if not c.compared and c.shape and 0 not in c.shape), None)
        silent = nowhere or next((c for c in mine if all(one.nothing for one in mine)), None)
        if silent is not None and silent.nothing and (nowhere or name not in constant):
            kind, at = (NOT_FINITE, silent.at) if nowhere else ("trivial", "")
            found[name] = finding(kind, name, at, nothing=silent.nothing)
    return found


def not_comparable(which: str, error: TrtsmithError, inputs: str, ran: str) -> Verdict:
    """Makes the verdict where a graph cannot be run, with what would make it comparable. which: such as "original"."""
    problem = error.problems[0]
    told = finding("not run", which=which, what=problem.what.rstrip("."), fix=problem.fix)
    return Verdict(NOT_COMPARABLE, False, inputs, findings=(told,), ran=ran)
