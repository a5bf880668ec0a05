"""Stage: chooses the element types for the network: --precision, --keep-fp32, --io-precision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.convert.accumulation import NO_INPUTS, SumsQuestion, bearable_sums, needed_sums
from trtsmith.converter.convert.precision_request import QUANTIZED, PrecisionRequest
from trtsmith.converter.convert.quantize.quantize import QuantizedNetwork, quantize
from trtsmith.converter.convert.quantize.samples import load_samples, split
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.records import merged
from trtsmith.converter.rewrite.phases import Rewriting
from trtsmith.converter.rewrite.precision.emulate import REDUCED
from trtsmith.converter.rewrite.precision.formats import FP16
from trtsmith.converter.rewrite.precision.reduce import Reduction, reduce_precision
from trtsmith.converter.rewrite.precision.report import PrecisionReport, SumsReport
from trtsmith.converter.rewrite.precision.sums import LONG_SUM, OFF_SUM, long_sums, longest_sum
from trtsmith.converter.rewrite.precision.widen import MeasuredRun, measured_run, widen_precision
from trtsmith.converter.rewrite.rewrite import Rewritten, expand
from trtsmith.converter.rewrite.types import to_engine, to_model
from trtsmith.converter.verify.given import load_inputs


def examples(
    original: Model, inputs: ArraySource | None, frozen: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """Returns the user's example inputs together with frozen values; None without examples. Raises UsageError if they do not
    fit.
    """
    if inputs is None:
        return None
    specs = [spec for spec in graph_inputs(original.proto) if spec.name not in frozen]
    return {**load_inputs(inputs, specs), **frozen}


def brought_to(request: PrecisionRequest, report: PrecisionReport | None) -> str:
    """Returns the precision to which the network was brought; "fp32" if its types are its own. Of 8 and 16 bits, the 8."""
    if not request.precision or report is None or report.unchanged:
        return "fp32"
    return request.beside if request.beside and not report.eight_bits else request.precision


def floats_decided(request: PrecisionRequest, report: PrecisionReport | None) -> bool:
    """Tells whether the model's own 16-bit types were replaced, so that its values are those of float32."""
    return report is not None and not report.unchanged and request.precision not in QUANTIZED


def precision_facts(request: PrecisionRequest, report: PrecisionReport | None) -> dict[str, Any]:
    """Returns the manifest's facts: the precision of the network, "fp32" if unchanged; the report of the pass; and whether
    --float-lstm was given.
    """
    return {
        "precision": brought_to(request, report),
        "precision_report": None if report is None else report.to_json(),
        "float_lstm": request.float_lstm,
    }


def in_precision(
    rewritten: Rewritten,
    request: PrecisionRequest,
    feeds: Mapping[str, np.ndarray] | None = None,
    *,
    given: bool = True,
    drawn: Collection[str] = (),
) -> Rewritten:
    """Returns the rewritten graph in the requested precision; itself without a request.

    A model that has 16-bit types of its own keeps those of its inputs and outputs, and is else treated as if all of it
    were float32.
    feeds: inputs of the original model, with which float16's range is tried in a float32 run; None: it is not tried.
    given: whether they are the user's: int8 and fp8 are not calibrated with made-up ones. drawn: names of generated ones.
    """
    if not request.precision:
        return rewritten
    trial = _Trial()
    done = _tried(rewritten, request, feeds, given, trial)
    if done.precision is None or done.precision.unchanged:
        return done
    ranges = (
        {name: feeds[name] for name in sorted(drawn)} if done.precision.seen and feeds is not None else {}
    )
    report = replace(done.precision, untried=_untried(request, feeds, trial), drawn=_ends(ranges))
    return replace(done, precision=report)


def _tried(
    rewritten: Rewritten,
    request: PrecisionRequest,
    feeds: Mapping[str, np.ndarray] | None,
    given: bool,
    trial: _Trial,
) -> Rewritten:
    """The graph in the precision: with every sum in float16, if the outputs bear it, else with what they need."""
    done = rewritten.in_precision(lambda work: _brought(work, request, feeds, given, trial))
    if trial.question is None or done.precision is None:
        return done
    # on the graph that TensorRT gets, so that the verdict need not run that again
    trial.step(_TRYING)
    bearable = bearable_sums(trial.question, done)
    if bearable is None:
        return rewritten.in_precision(lambda work: _brought(work, request, feeds, given, trial))
    error, tried = bearable
    sums = SumsReport("auto", trial.long, trial.kept, error, error)
    return replace(done, precision=replace(done.precision, sums=sums), tried=tried)


def _ends(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The smallest and the largest number of each array of floats."""
    floats = {name: array for name, array in arrays.items() if "float" in array.dtype.name and array.size}
    return {name: (float(array.min()), float(array.max())) for name, array in floats.items()}


def _untried(request: PrecisionRequest, feeds: Mapping[str, np.ndarray] | None, trial: _Trial) -> str:
    """Why float16's range was not tried; "" where it was, or means nothing."""
    if request.format is not FP16 or request.settled or trial.measured is not None:
        return ""
    return NO_INPUTS if feeds is None else "onnxruntime does not run the graph"


@dataclass
class _Trial:
    """The trial of float16 sums, and of zeros for values below float16's range. The first reduction asks the question and
    its graph answers it; a second reduction finds the nodes that need float32.

    measured: the run in float32. calibrated: the network in 8 bits, which takes long. long, kept: of SumsReport.
    step: is told what is done.
    """

    question: SumsQuestion | None = None
    measured: MeasuredRun | None = None
    calibrated: QuantizedNetwork | None = None
    long: int = 0
    kept: int = 0
    step: Progress = field(default_factory=lambda: steps_of(None))


_TRYING = "running the network with sums in float16 (--accumulate fp32 or fp16 decides without it)"


def _brought(
    work: Rewriting,
    request: PrecisionRequest,
    feeds: Mapping[str, np.ndarray] | None,
    given: bool,
    trial: _Trial,
) -> Rewriting:
    """Runs the precision phase."""
    if request.precision in QUANTIZED:
        if trial.calibrated is None:
            samples = _samples(work, request, feeds if given else None)
            trial.calibrated = quantize(
                work.model, request.precision, samples, keep=request.keep, rewrites=merged(work.rewrites)
            )
        eight_bits = trial.calibrated
        work.graph.become(eight_bits.model)
        if not request.beside:
            return replace(work, precision=eight_bits.report)
        rest = replace(request, precision=request.beside, beside="", calibration=())
        return _beside(eight_bits.report, _brought(work, rest, feeds, given, trial))
    fmt = request.format
    if fmt is None:
        return _with(work, widen_precision(work.graph, wide_io=request.io))
    if not REDUCED.isdisjoint(work.graph.elem_types()):  # what is in 16 bits already is decided anew
        work = _with(work, widen_precision(work.graph))
    if fmt is FP16 and feeds is not None and not request.settled and trial.measured is None:
        trial.measured = _measured(work, feeds)
    seen = trial.measured.magnitudes if trial.measured is not None else {}
    longest = longest_sum(work.options.target, fmt)
    judged = longest is not None and not request.settled
    accumulate = request.accumulate or "auto"
    plain = work.model

    tried = judged and accumulate == "auto" and feeds is not None and trial.question is None

    def reduce(longest: int | None, wide: Mapping[str, str]) -> Reduction:
        done = reduce_precision(
            work.graph,
            fmt,
            keep=request.keep,
            rewrites=merged(work.rewrites),
            seen=seen,
            reduced_io=request.io,
            keep_only=request.keep_only,
            decided=request.decided,
            longest=longest,
            wide=wide,
            zeros=tried,
        )
        if done.report.share is not None:
            work.graph.become(plain)
        return done

    first = reduce(longest if judged and accumulate == "fp32" else None, {})
    if request.keep_only and longest is not None:
        first = _told(first, SumsReport("fp16", len(long_sums(plain)), 0))
    if not judged or first.report.share is not None:
        return _with(work, first)
    trial.long, trial.kept = len(long_sums(work.model)) + _kept(first), _kept(first)
    if accumulate != "auto":
        return _with(work, _told(first, SumsReport(accumulate, trial.long, trial.kept)))
    reduced = _with(work, first)
    exact = None if trial.measured is None else to_model(trial.measured.outputs, work.io_types)
    zeros = any(0 < size < fmt.smallest for size in seen.values())
    question = SumsQuestion(plain, work.io_types, feeds, exact, zeros)
    if tried:
        trial.question, trial.step = question, work.options.step
        return reduced
    work.options.step(_TRYING)
    needed = needed_sums(question, reduced.model, reduced.io_types)
    if needed.wide:
        work.graph.become(plain)
        first = reduce(None, needed.wide)
    told = SumsReport("auto", trial.long, _kept(first), needed.error, needed.left, needed.why)
    return _with(work, _told(first, told))


def _beside(eight_bits: PrecisionReport, done: Rewriting) -> Rewriting:
    """The rewriting with one report on the layers in 8 bits, and on the others in 16."""
    report = done.precision
    if report is None or report.unchanged:
        return replace(done, precision=eight_bits)
    if eight_bits.own:
        return done
    known = {one.node for one in report.kept}
    kept = (*(one for one in eight_bits.kept if one.node not in known), *report.kept)
    told = replace(report, kept=kept, eight_bits=eight_bits.precision, layers=eight_bits.reduced)
    return replace(done, precision=told)


def _kept(done: Reduction) -> int:
    """The number of nodes kept in float32 for their sums."""
    return sum(1 for kept in done.report.kept if kept.reason in (LONG_SUM, OFF_SUM))


def _told(done: Reduction, sums: SumsReport) -> Reduction:
    return replace(done, report=replace(done.report, sums=sums))


def _with(work: Rewriting, reduced: Reduction) -> Rewriting:
    """Records the reduction; an input that the types phase changed already is reported once, from first to last type."""
    after = {io.name: io.after for io in reduced.io_types}
    earlier = tuple(replace(io, after=after.pop(io.name)) if io.name in after else io for io in work.io_types)
    io_types = (*earlier, *(io for io in reduced.io_types if io.name in after))
    return replace(work, io_types=io_types, precision=reduced.report)


def _samples(
    work: Rewriting, request: PrecisionRequest, feeds: Mapping[str, np.ndarray] | None
) -> list[dict[str, np.ndarray]] | None:
    """Calibration inputs, in the types of the rewritten graph."""
    specs = list(graph_inputs(work.model.proto))
    if request.calibration:
        before = {io.name: io.before for io in work.io_types}
        told = [replace(spec, dtype=before.get(spec.name, spec.dtype)) for spec in specs]
        samples = load_samples(request.calibration, told)
    elif feeds is not None:
        samples = split({spec.name: feeds[spec.name] for spec in specs}, specs)
    else:
        return None
    return [to_engine(sample, work.io_types) for sample in samples]


def _measured(work: Rewriting, feeds: Mapping[str, np.ndarray]) -> MeasuredRun | None:
    """The float32 run; None if onnxruntime cannot run the graph, which the verdict reports."""
    work.options.step("running the network in float32: which values pass the range of float16")
    wanted = {value.name for value in work.model.proto.graph.input}
    given = to_engine({n: v for n, v in feeds.items() if n in wanted}, work.io_types)
    try:
        return measured_run(expand(work.model), given)
    except ConversionError:
        return None
