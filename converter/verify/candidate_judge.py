"""Judges a candidate against a baseline: runs it, compares its outputs, and measures rounding where needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.model.node_functions import calling
from trtsmith.converter.verify.allowance import QUANTIZED, Allowance, allowance, in_words
from trtsmith.converter.verify.baseline import Arithmetic, Baseline, Original, Outputs
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.constant_outputs import lost_constants
from trtsmith.converter.verify.findings import INFINITE_WEIGHTS, NOT_FINITE, Finding, finding
from trtsmith.converter.verify.infinite_weights import infinite_weights
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns, compared
from trtsmith.converter.verify.no_values import always_empty, arrays_with_nan
from trtsmith.converter.verify.noise import UNITS, UNITS_BESIDE
from trtsmith.converter.verify.rounding import GRIDS
from trtsmith.converter.verify.sensitivity import (
    with_functions,
    with_original,
    with_own_definitions,
    with_sensitivity,
)
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import DISAGREE, Proof, Verdict, not_comparable, verdict_of
from trtsmith.importers.opdef import Arrays

NEAR = UNITS_BESIDE / UNITS
"""The share of what is allowed without a measurement from which on rounding is measured: where it changes little, elements
may be off by no more."""


UNSTEADY = 1e-4
"""How far apart two runs of an engine may be: sums in another order, of atomic additions, are closer."""


@dataclass(frozen=True)
class Ran:
    """The run of a candidate. outputs: by name in the model's types, for each set of inputs. warnings: for the user.

    unsteady: how far apart an output is from run to run (RunResult).
    """

    outputs: Outputs
    warnings: tuple[str, ...] = ()
    unsteady: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A graph or engine to judge.

    name: for messages, such as "rewritten graph". run: computes outputs for sets of the original's inputs; ConversionError
    where onnxruntime does not run it, UsageError where an engine cannot be run. is_own: it is the original, which the
    rewrite left as it was. findings: what is known of it, for its verdict.
    release: closes what is held open between runs.
    """

    name: str
    arithmetic: Arithmetic
    run: Callable[[Sequence[Arrays]], Ran]
    is_engine: bool = False
    is_own: bool = False
    findings: tuple[Finding, ...] = ()
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Judged:
    """Comparisons of all sets, the outputs left out of them, and whether rounding was measured for them.

    measured: None where nothing called for it; False where onnxruntime does not run it.
    """

    comparisons: tuple[Comparison, ...]
    allowances: tuple[Allowance, ...]
    measured: bool | None = None

    def left(self, tolerances: Tolerances | None) -> dict[str, Finding]:
        """Outputs decided by rounding; by name, why they are not compared."""
        return _furthest(one.excluded(tolerances) for one in self.allowances)

    def unproven(self, tolerances: Tolerances | None) -> dict[str, Finding]:
        """Outputs that rounding changes so much that agreement proves nothing; by name, why."""
        return _furthest(one.unproven(tolerances) for one in self.allowances)

    def disagrees(self, tolerances: Tolerances | None) -> bool:
        """Tells whether an output that is compared disagrees."""
        left = self.left(tolerances)
        return any(not one.agrees and one.output not in left for one in self.comparisons)


def _furthest(of_sets: Iterable[Mapping[str, Finding]]) -> dict[str, Finding]:
    """The findings of all sets of inputs by output: the last, or that of the largest difference where it is known."""
    found: dict[str, Finding] = {}
    for findings in of_sets:
        for name, why in findings.items():
            known = found.get(name, why).figures.get("off", 0.0)
            found[name] = found[name] if known > why.figures.get("off", known) else why
    return found


def judge(baseline: Baseline, candidate: Candidate, tolerances: Tolerances | None = None) -> Verdict:
    """Runs and judges a candidate. Raises UsageError if an engine cannot be run."""
    try:
        wanted = baseline.wanted
    except ConversionError as error:
        return _unknown(baseline, "original", error, "nothing")
    if candidate.is_engine:
        baseline.original.release()
    try:
        ran = candidate.run([one.feeds for one in baseline.sets])
    except ConversionError as error:
        return _unknown(
            baseline, candidate.name, error, "nothing" if wanted is baseline.expected else "original"
        )
    if candidate.arithmetic.precision in QUANTIZED and not candidate.is_engine:
        # no emulation tells what calibrated scales cost: an output is left out where they change too much of it
        with suppress(ConversionError):
            baseline = baseline.held_to(baseline.plain, ran.outputs, baseline.limits)
    own = candidate.is_own and baseline.expected is None
    verdict = judge_outputs(
        baseline, candidate.arithmetic, ran.outputs, tolerances, engine_run=candidate.is_engine, own=own
    )
    known = (*candidate.findings, *((finding("own graph"),) if own else ()), *baseline.generated)
    known += tuple(_unsteady(baseline, ran))
    verdict = replace(verdict, findings=(*verdict.findings, *known), warnings=ran.warnings)
    return _explained(verdict, baseline)


def _unsteady(baseline: Baseline, ran: Ran) -> Iterator[Finding]:
    for name, off in ran.unsteady.items():
        if off > UNSTEADY and name not in baseline.original.random:
            yield finding("unsteady", name, off=off)


def _unknown(baseline: Baseline, which: str, error: ConversionError, ran: str) -> Verdict:
    return replace(
        not_comparable(which, error, baseline.source.words, ran), meanings=baseline.source.meanings
    )


def _explained(verdict: Verdict, baseline: Baseline) -> Verdict:
    """The verdict with what its reference rests on, and what else explains a difference or constant outputs."""
    lost = tuple(why for name, why in lost_constants(baseline.model).items() if name in verdict.outputs)
    verdict = replace(verdict, findings=(*verdict.findings, *lost))
    if any(one.finding.kind == NOT_FINITE for one in verdict.left_out):
        weights = (finding(INFINITE_WEIGHTS, told=told) for told in infinite_weights(baseline.model))
        nan = arrays_with_nan(baseline.model, baseline.sets[0].feeds)
        verdict = replace(verdict, findings=(*verdict.findings, *weights, *nan))
    if empty := [one.output for one in verdict.left_out if one.finding.kind == "trivial"]:
        verdict = replace(verdict, findings=(*verdict.findings, *always_empty(baseline.model, empty)))
    if verdict.status == DISAGREE:
        verdict = _of_the_reference(verdict, baseline)
    if baseline.expected is not None:
        return verdict
    if verdict.engine_run and verdict.status == DISAGREE:
        baseline.progress("measuring how much the original's outputs change with the last bits of its inputs")
        verdict = with_sensitivity(verdict, baseline.sets, baseline.plain, baseline.original.run)
    return with_own_definitions(baseline.model, verdict)


def _of_the_reference(verdict: Verdict, baseline: Baseline) -> Verdict:
    """The verdict with what the original and functions of the user say of a difference."""
    references = baseline.original.references
    try:
        plain = baseline.plain[0]
    except ConversionError as error:
        told = not_comparable("original", error, "", "original").findings
        return replace(verdict, findings=(*verdict.findings, *told))
    if baseline.expected is not None:
        verdict = with_original(verdict, baseline.expected[0], plain, baseline.model)
    if references.nodes:
        operators = [one.op_type for one in references.nodes]
        with calling(()):
            own = Original(baseline.model)
            verdict = with_functions(verdict, operators, plain, lambda: own.run(baseline.sets[0].feeds))
    return verdict


def judge_outputs(
    baseline: Baseline,
    arithmetic: Arithmetic,
    outputs: Outputs,
    tolerances: Tolerances | None = None,
    *,
    engine_run: bool = True,
    own: bool = False,
) -> Verdict:
    """Judges outputs for every set of the baseline's inputs. Raises ConversionError without a reference.

    own: the outputs are the original's, whose graph the rewrite left as it was.
    """
    found = compare_outputs(baseline, arithmetic, outputs, tolerances)
    random = {} if own else baseline.original.random
    # an engine is held to what the user expects, whatever the model's types make of it
    unheld = {} if engine_run and baseline.expected is not None else baseline.unheld
    left = {**found.left(tolerances), **baseline.limits.excluded, **random, **unheld}
    amplified = {name: share for one in found.allowances for name, share in one.amplified.items()}
    verdict = verdict_of(
        tuple(c for c in found.comparisons if c.output not in left),
        baseline.source.words,
        engine_run=engine_run,
        left=found.unproven(tolerances) | left,
        findings=[finding("grown", name, changed=changed) for name, changed in amplified.items()],
        proof=Proof(
            {} if own else baseline.doubts, baseline.original.constant, given=baseline.expected is not None
        ),
        tolerances=tolerances,
    )
    told = in_words(arithmetic.precision, found.measured) if engine_run else ""
    return replace(verdict, precision=told, meanings=baseline.source.meanings)


def compare_outputs(
    baseline: Baseline, arithmetic: Arithmetic, outputs: Outputs, tolerances: Tolerances | None = None
) -> Judged:
    """Compares outputs for every set of inputs. Rounding is measured once for outputs that need it, or several ways.

    Rounding is drawn other ways before an output is said to disagree: where one run tells little of what it does, at edges
    and near thresholds, several tell more. ConversionError: there is nothing to compare with.
    """
    found = _compared(baseline, arithmetic, outputs, tolerances)
    off = {one.output for one in found.comparisons if _calls_for_rounding(one, arithmetic)}
    if not off:
        return found
    first = baseline.rounded(arithmetic)
    if first is None:
        if arithmetic.precision == "fp32":
            found = replace(found, comparisons=_by_norm(found, baseline, outputs, tolerances))
        return replace(found, measured=False)
    found = _compared(baseline, arithmetic, outputs, tolerances, (first,), off)
    if found.disagrees(tolerances):
        more = [made for grid in GRIDS if (made := baseline.rounded(arithmetic, grid)) is not None]
        if more:
            found = _compared(baseline, arithmetic, outputs, tolerances, (first, *more), off)
    return found


def _calls_for_rounding(one: Comparison, arithmetic: Arithmetic) -> bool:
    if not one.agrees or one.beyond or one.slice:
        return True
    # of float32, what is measured only widens the bounds
    return arithmetic.precision not in ("fp32", *QUANTIZED) and (one.used or 0.0) > NEAR


def _compared(
    baseline: Baseline,
    arithmetic: Arithmetic,
    outputs: Outputs,
    tolerances: Tolerances | None,
    draws: Sequence[Outputs] = (),
    off: Collection[str] | None = None,
) -> Judged:
    """off: the only outputs that the allowance may leave out: others agree without a measurement."""
    comparisons: list[Comparison] = []
    allowances: list[Allowance] = []
    for index, (one, actual) in enumerate(zip(baseline.sets, outputs, strict=True)):
        runs = RoundedRuns(
            arithmetic.precision,
            baseline.plain[index] if draws else None,
            [made[index] for made in draws],
            baseline.limits,
        )
        known, found = compared(baseline.model, baseline.wanted[index], actual, runs, tolerances, one.at)
        comparisons += found
        allowances.append(known if off is None else known.only(off))
    return Judged(tuple(comparisons), tuple(allowances), True if draws else None)


def _by_norm(
    found: Judged, baseline: Baseline, outputs: Outputs, tolerances: Tolerances | None
) -> tuple[Comparison, ...]:
    """The comparisons by norm alone, of outputs in float32: without a measurement nothing is known of the elements."""
    comparisons: list[Comparison] = []
    for index, (one, actual) in enumerate(zip(baseline.sets, outputs, strict=True)):
        names = {c.output for c in found.comparisons if c.at == one.at}
        wanted = {n: v for n, v in baseline.wanted[index].items() if n in names}
        known = allowance(wanted, (), "fp32", baseline.model.proto)
        comparisons += compare(wanted, actual, tolerances, known.allowed, one.at)
    return tuple(comparisons)
