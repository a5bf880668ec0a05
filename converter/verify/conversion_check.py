"""Makes the comparison of `convert`: judges the graphs, and the engine if a GPU can run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from trtsmith.converter.base.arrays import ArraySource, array_names, named_source
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.engine.builder.build_request import BuildResult
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.rewrite import Rewritten, runnable
from trtsmith.converter.rewrite.types import to_engine
from trtsmith.converter.verify.allowance import QUANTIZED, Limits
from trtsmith.converter.verify.baseline import Arithmetic, Baseline, Original
from trtsmith.converter.verify.candidate_judge import Candidate, judge
from trtsmith.converter.verify.candidates import (
    built_engine,
    is_own_graph,
    own_graph,
    reduced_graph,
    rewritten_graph,
)
from trtsmith.converter.verify.cost.measured import SAMPLES, measured_cost
from trtsmith.converter.verify.elsewhere import ComparisonElsewhere, allowance_elsewhere
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.given import (
    check_batch,
    check_indices,
    load_expected,
    load_inputs,
    profile_of,
    told,
    unused_arrays,
)
from trtsmith.converter.verify.meaning.selections import find_selections
from trtsmith.converter.verify.other_sizes import Place, compared_at, ends_of, runs_at, size_in_words
from trtsmith.converter.verify.reduced import STEPS, run_quantized
from trtsmith.converter.verify.references import NO_REFERENCES, References
from trtsmith.converter.verify.rounding import FP16_SUMS, engine_precision
from trtsmith.converter.verify.sets import Generation, InputSet, InputSource
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import (
    AGREE,
    DISAGREE,
    GRAPH_ONLY,
    NOT_COMPARABLE,
    TOO_COSTLY,
    OtherSizes,
    Verdict,
    not_comparable,
    with_other_sizes,
)
from trtsmith.converter.verify.verdict_words import NOTES
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.registry import find_aliases

_OF_BOTH = ("generated", "own definition", "fused")
"""Kinds of findings that hold for the graph before calibration and after it."""


_NARROW = (*FORMATS, *QUANTIZED, FP16_SUMS)
"""Arithmetics in which the graph before the precision was chosen is another one."""


@dataclass(frozen=True)
class _Checked:
    """What is compared with the original, and how.

    graph: the rewritten graph in float32, in one session for all sizes. plain: the graph before a precision was chosen,
    where that is known. own: whether a graph in 8 bits is held to itself.
    """

    rewritten: Rewritten
    precision: str
    graph: Candidate
    plain: Rewritten | None
    own: bool

    @property
    def arithmetic(self) -> Arithmetic:
        return Arithmetic.of(self.precision, self.rewritten.precision)

    @property
    def inputs(self) -> frozenset[str]:
        """Inputs that the engine has."""
        return frozenset(value.name for value in self.rewritten.model.proto.graph.input)


@dataclass(frozen=True)
class GraphsJudged:
    """Results without the engine: the verdict on the graphs, and their outputs at other sizes."""

    checked: _Checked
    baseline: Baseline
    verdict: Verdict
    sizes: tuple[tuple[Mapping[str, Place], OtherSizes], ...]


@dataclass(frozen=True)
class ConversionCheck:
    """The comparison of a conversion: the user's data, read and checked before the build.

    feeds: of all inputs of the original, the frozen ones too. gpu: that of this machine. expected: outputs that the user
    gave, or a function of the user's. plain: the original's own, where they are known already. samples: sets of inputs of
    the original with which 8 bits were calibrated. more: of further profiles, whose usual sizes are compared with generated
    inputs. profile: the number of the one that takes the user's inputs.
    """

    original: Model
    feeds: Arrays
    source: InputSource
    tolerances: Tolerances | None
    expected: Arrays | None
    mode: str
    gpu: Gpu | None
    references: References = NO_REFERENCES
    plain: Arrays | None = None
    samples: Sequence[Arrays] = ()
    more: tuple[Generation, ...] = ()
    profile: int = 0

    def graphs(
        self,
        rewritten: Rewritten,
        precision: str,
        baseline: Baseline,
        plain: Rewritten | None = None,
        calibrated: Model | None = None,
    ) -> GraphsJudged:
        """Judges the graphs, without the engine.

        plain: the graph before a precision was chosen. calibrated: the graph as calibration left it.
        """
        own = precision in QUANTIZED and not self.tolerances and self.expected is None
        told = replace(rewritten, typed=calibrated) if own else rewritten
        reduced = own or (rewritten.precision is not None and precision in _NARROW)
        wide = plain if plain is not None and reduced else rewritten
        same = is_own_graph(self.original, wide)
        graph = own_graph(baseline.original) if same else rewritten_graph(wide.model, wide.io_types)
        checked = _Checked(told, precision, graph, plain, own and plain is not None)
        verdict = self._usual(checked, baseline)
        places = ({}, {}) if verdict.status == DISAGREE or verdict.ran != "graphs" else self._places()
        sizes = [(one, compared_at(one, baseline.original, graph, self.tolerances)) for one in places if one]
        return GraphsJudged(checked, baseline, verdict, tuple(sizes))

    def run(self, judged: GraphsJudged, built: BuildResult, request: RunRequest) -> Verdict:
        """Judges the engine or its graph; in 8 bits also the cost against the original."""
        checked, baseline = judged.checked, judged.baseline
        request = replace(request, profile=self.profile)
        not_run = _why_not(self.mode, self.gpu, built)
        verdict = self._with_engine(judged, request, not_run)
        for places, sizes in judged.sizes:
            if verdict.status != DISAGREE and verdict.ran == "graphs":
                verdict = self._elsewhere(places, sizes, verdict, checked, baseline.original, request)
        precision = checked.precision
        if checked.own:
            held = f"against the {precision} graph" if verdict.engine_run else f"{precision} graph"
            verdict = replace(verdict, basis=(held, *(one for one in verdict.basis if one != GRAPH_ONLY)))
        return self._with_cost(verdict, checked, baseline) if precision in QUANTIZED else verdict

    def baseline(self, progress: Progress, *, wide: bool = False) -> Baseline:
        """Computes the original's outputs for the given inputs, or for those of usual sizes. wide: as of Original."""
        return Baseline(
            Original(self.original, self.references, progress, wide=wide),
            (InputSet("", self.feeds),),
            self.source,
            expected=None if self.expected is None else [self.expected],
            known=None if self.plain is None else [self.plain],
            progress=steps_of(progress),
        )

    def _with_cost(self, verdict: Verdict, checked: _Checked, baseline: Baseline) -> Verdict:
        precision = checked.precision
        baseline.progress(f"measuring what {precision} costs")
        most = self.tolerances.max_cost if self.tolerances is not None else None
        sets = [self.feeds, *self.samples[: SAMPLES - 1]]
        words = self.source.words + (
            f" and {len(sets) - 1} of {len(self.samples)} samples of --calibration" if self.samples else ""
        )
        try:
            graphs = self.original, checked.rewritten, checked.plain
            cost = measured_cost(*graphs, sets, words, precision, most, self.expected or self.plain)
        except ConversionError as error:
            told = finding("cost unknown", type=precision, what=error.problems[0].what)
            status = verdict.status if most is None or verdict.status == DISAGREE else NOT_COMPARABLE
            return replace(verdict, status=status, findings=(*verdict.findings, told))
        status = TOO_COSTLY if cost.too_high and verdict.status == AGREE else verdict.status
        return replace(verdict, status=status, cost=cost, basis=(*verdict.basis, *cost.short()))

    def _places(self) -> tuple[Mapping[str, Place], Mapping[str, Place]]:
        """Where the graphs are compared beside the given inputs, or those of usual sizes.

        The ends of the first profile, where inputs are made up, and the usual sizes of further profiles.
        """
        ends = {} if self.source.generation is None else ends_of(self.source.generation)
        return ends, {f"profile {number}": (one, "opt") for number, one in enumerate(self.more, 1)}

    def _elsewhere(
        self,
        places: Mapping[str, Place],
        sizes: OtherSizes,
        verdict: Verdict,
        checked: _Checked,
        original: Original,
        request: RunRequest,
    ) -> Verdict:
        """The verdict with other sizes, where the graph in the model's own precision stands for a chosen one.

        The precision pass does the same at all sizes. An engine that was run is run there, too, where the graphs agree.
        """
        chosen = checked.rewritten.precision is not None and checked.precision in _NARROW
        reduced = checked.plain is not None and chosen
        if verdict.engine_run:
            sizes = self._engine_elsewhere(places, sizes, checked, request)
        accepted = () if self.tolerances is None else self.tolerances.not_compared
        fix = runs_at(places, sizes) if sizes.failed else None
        own = reduced and not verdict.engine_run
        return with_other_sizes(verdict, replace(sizes, fix=fix, own_precision=own), accepted)

    def _engine_elsewhere(
        self, places: Mapping[str, Place], sizes: OtherSizes, checked: _Checked, request: RunRequest
    ) -> OtherSizes:
        """The same of the engine: its comparisons take the place of the graph's where these agree."""
        comparisons = [one for one in sizes.comparisons if one.at not in sizes.baselines]
        failed, unknown = dict(sizes.failed), dict(sizes.unknown)
        profiles = list(self._places()[1])
        for at, baseline in sizes.baselines.items():
            where = size_in_words(*places[at], at)
            steps_of(baseline.original.progress)(f"running the engine at {where}")
            profile = profiles.index(at) + 1 if at in profiles else 0
            try:
                one = self._engine(checked, baseline, replace(request, profile=profile))
            except UsageError as error:
                what = f"the engine fails: {error.problems[0].what}"
                failed[at] = finding("size failed", at=at, where=where, what=what)
                continue
            comparisons += one.comparisons
            known = {compared.output for compared in one.comparisons}
            if left := [o.finding for o in one.left_out if o.output not in known]:
                unknown[at] = [replace(why, at=where) for why in left]
        return replace(sizes, comparisons=tuple(comparisons), failed=failed, unknown=unknown)

    def _usual(self, checked: _Checked, baseline: Baseline) -> Verdict:
        """The verdict on the graphs with the given inputs, or with those of usual sizes."""
        step = steps_of(baseline.original.progress)
        step("running the original model in onnxruntime")
        try:
            _ = baseline.wanted
        except ConversionError as error:
            words = self.source.generation.words("opt") if self.source.generation is not None else ""
            which = f"original at the usual size, {words}" if words else "original"
            return replace(
                not_comparable(which, error, self.source.words, "nothing"), meanings=self.source.meanings
            )
        step("running the rewritten graph in onnxruntime")
        graphs = (self._eight_bits if checked.own else self._graphs)(checked, baseline)
        if graphs.ran == "nothing" and self.expected is None:
            return replace(graphs, ran="original")
        return graphs

    def _with_engine(self, judged: GraphsJudged, request: RunRequest, not_run: str) -> Verdict:
        """The verdict on the engine where the graphs agree, or where only the user's outputs are known.

        not_run: why the engine is not run; "" where it is.
        """
        graphs = replace(judged.verdict, not_run=not_run)
        unknown = graphs.status == NOT_COMPARABLE and self.expected is not None
        if (not graphs.agrees and not unknown) or not_run:
            return self._told(graphs)
        try:
            verdict = self._engine(judged.checked, judged.baseline, request)
        except UsageError as error:
            problem = error.problems[0]
            told = finding("engine not run", what=problem.what, fix=problem.fix)
            return replace(graphs, status=NOT_COMPARABLE, findings=(told,), left_out=(), not_run=problem.what)
        worst = max((c.relative for c in graphs.comparisons if c.agrees), default=0.0)
        between = (
            finding("graphs unknown", text=graphs.reason) if unknown else finding("graphs agree", error=worst)
        )
        notes = (one for one in graphs.findings if one not in verdict.findings and one.kind in NOTES)
        return replace(verdict, findings=(*verdict.findings, between, *notes))

    def _eight_bits(self, checked: _Checked, baseline: Baseline) -> Verdict:
        """The graph before calibration against the original; then the one to build against the calibrated one."""
        rewritten, plain = checked.rewritten, checked.plain
        assert plain is not None
        before = judge(baseline, checked.graph, self.tolerances)
        if not before.agrees or rewritten.typed is None:
            return before
        engine = to_engine(self.feeds, plain.io_types)
        names = {value.name for value in rewritten.typed.proto.graph.input}
        feeds = {name: value for name, value in engine.items() if name in names}
        source = InputSource(self.source.words)
        calibrated = Baseline(runnable(rewritten.typed), (InputSet("", feeds),), source)
        own = judge(calibrated, rewritten_graph(rewritten.model), self.tolerances)
        worst = max((c.relative for c in before.comparisons if c.agrees), default=0.0)
        told = (
            finding("calibrated", type=checked.precision),
            finding("before calibration", error=worst),
            *own.findings,
            *(one for one in before.findings if one.kind in _OF_BOTH and one not in own.findings),
        )
        judged = own if not own.agrees else before
        return replace(judged, findings=told, comparisons=own.comparisons)

    def _told(self, graphs: Verdict) -> Verdict:
        """Of plugins that a function of the user stood for, that they were not run."""
        if not self.references.nodes or not graphs.comparisons:
            return graphs
        known = {kind: find_aliases(*kind) for kind in Graph(self.original).kinds()}
        expanded = {
            kind for kind, found in known.items() if found and all(op.by_expansion for op, _ in found)
        }
        plugins = known.keys() - expanded
        names = [one.op_type for one in self.references.nodes if any(one.computes(*kind) for kind in plugins)]
        if not names:
            return graphs
        return replace(graphs, findings=(*graphs.findings, finding("plugin not run", operators=names)))

    def _engine(self, checked: _Checked, baseline: Baseline, request: RunRequest) -> Verdict:
        """The engine against the original; one in 8 bits against its own graph, unless the user says what is wanted."""
        held, arithmetic = self._held_to(checked.rewritten, checked.arithmetic, baseline)
        progress = baseline.original.progress
        checked.graph.release()
        if held is baseline:
            engine = built_engine(request, checked.inputs, arithmetic, progress)
            return judge(baseline, engine, self.tolerances)
        known = (finding("own graph in 8 bits", type=checked.precision),)
        engine = built_engine(request, checked.inputs, arithmetic, progress, known)
        verdict = judge(held, engine, self.tolerances)
        changes = f"{verdict.precision}, or {STEPS:g} of what {checked.precision} changes there"
        return replace(verdict, precision=changes)

    def _held_to(
        self, rewritten: Rewritten, arithmetic: Arithmetic, baseline: Baseline
    ) -> tuple[Baseline, Arithmetic]:
        """The baseline and the arithmetic that judge an engine: in 8 bits those of its own graph, with products in TF32.

        Where other layers are in 16 bits, the arithmetic is theirs.
        """
        precision = arithmetic.precision
        if self.expected is not None or precision not in QUANTIZED or self.tolerances:
            return baseline, arithmetic
        feeds = baseline.sets[0].feeds
        own = run_quantized(rewritten.model, feeds, baseline.plain[0], precision, rewritten.io_types)
        limits = Limits(own.allowed, own.changes, own.moved)
        report, rest = rewritten.precision, "tf32"
        if report is not None and report.eight_bits:
            rest = engine_precision(report.precision, float16_sums=report.sums is not None)
        return baseline.held_to([own.plain], [own.narrow], limits), replace(arithmetic, precision=rest)

    def elsewhere(
        self, rewritten: Rewritten, precision: str, verdict: Verdict, baseline: Baseline
    ) -> ComparisonElsewhere:
        """Makes the reference data for an engine that another machine builds.

        verdict: on the graphs. baseline: by which they were judged.
        """
        feeds = to_engine(self.feeds, rewritten.io_types)
        read = {value.name for value in rewritten.model.proto.graph.input}
        fed = {name: value for name, value in feeds.items() if name in read}
        left_out = {one.output: one.finding for one in verdict.left_out}
        arithmetic = Arithmetic.of(precision, rewritten.precision)
        try:
            held, arithmetic = self._held_to(rewritten, arithmetic, baseline)
            wanted, measured = allowance_elsewhere(held, arithmetic, self.tolerances)
        except ConversionError as error:
            names = (value.name for value in self.original.proto.graph.output)
            left = {name: finding("said", name, text=error.problems[0].what) for name in names}
            return ComparisonElsewhere(fed, {}, {}, {}, left)
        found = ComparisonElsewhere(fed, wanted, {}, {}, left_out)
        return found.within(measured, self.tolerances, find_selections(self.original, self.tolerances))

    def _graphs(self, checked: _Checked, baseline: Baseline) -> Verdict:
        rewritten = checked.rewritten
        if checked.precision in _NARROW:
            graph = reduced_graph(rewritten.model, rewritten.io_types, checked.arithmetic, rewritten.tried)
            if rewritten.precision is not None and not rewritten.precision.reduced:
                graph = replace(graph, findings=())  # nothing of it is in the type
        else:
            graph = checked.graph
        return judge(baseline, graph, self.tolerances)


@dataclass(frozen=True)
class ComparisonRequest:
    """The user's request for a comparison. mode: --verify. samples: of --calibration."""

    inputs: ArraySource | None
    expected: ArraySource | None
    tolerances: Tolerances | None
    mode: str
    references: References = NO_REFERENCES
    samples: Sequence[Arrays] = ()


def prepare(
    original: Model,
    specs: Sequence[InputSpec],
    profiles: Sequence[Mapping[str, ShapeRange]],
    values: Mapping[str, ShapeRange],
    frozen: Mapping[str, np.ndarray],
    request: ComparisonRequest,
) -> ConversionCheck:
    """Prepares the comparison: reads and checks the user's data before the build.

    profiles: the first is the one whose sizes inputs are made up for. The original is fed the frozen values too; what was
    generated for a shape tensor are its usual values.
    UsageError: files that do not fit the model or are outside of its profiles, or mode "engine" without a GPU.
    """
    inputs, expected, references = request.inputs, request.expected, request.references
    gpu = find_gpu() if request.mode != "graph" else None
    if request.mode == "engine" and gpu is None:
        raise UsageError(
            "the engine cannot be run: there is no NVIDIA GPU here",
            "--verify engine",
            "a machine with an NVIDIA GPU and its driver",
            "--verify graph, and later `trtsmith verify` where the GPU is",
        )
    outputs = original.proto.graph.output
    if request.tolerances is not None:
        request.tolerances.check_outputs([value.name for value in outputs])
    words = f", {references.words()}" if references.words() else ""
    source = InputSource(told(inputs, expected) + words)
    first, *more = (Generation(original, specs, one, values, frozen) for one in profiles)
    number = 0
    if inputs is not None:
        feeds = load_inputs(inputs, specs)
        where = named_source("--inputs", inputs)
        check_indices(feeds, original.proto.graph, where)
        number = profile_of(feeds, specs, profiles, values, where)
        unused = unused_arrays(array_names(inputs), (*feeds, *frozen), where)
        source = replace(source, fixed=first.fixed, unused=unused)
    else:
        generated = first.at("opt")
        feeds = generated.arrays
        source = replace(source, generation=first, fixed=first.fixed, meanings=generated.meanings)
    fed = feeds | dict(frozen)
    if expected is None:
        wanted = references.outputs(original, fed)
    else:
        wanted = load_expected(expected, outputs, fed)
        check_batch(wanted, feeds, specs, outputs, named_source("--expected", expected))
    return ConversionCheck(
        original,
        fed,
        source,
        request.tolerances,
        wanted,
        request.mode,
        gpu,
        references,
        _with_functions(original, fed) if references.nodes else None,
        [{**one, **frozen} for one in request.samples],
        tuple(more),
        number,
    )


def _with_functions(original: Model, feeds: Arrays) -> Arrays | None:
    """The original's outputs, before the build: a mistake in a function is not found after it. None if it cannot be run."""
    with suppress(ConversionError):
        return Original(original).run(feeds)
    return None


def _why_not(mode: str, gpu: Gpu | None, built: BuildResult) -> str:
    """Why the engine is not run; "" where it is."""
    if not built.size:
        return f"it is built on {', '.join(built.targets)}"
    if mode == "graph":
        return "--verify graph"
    if gpu is None:
        return "there is no NVIDIA GPU here"
    if mode == "auto" and built.flavour == "tensorrt_rtx" and gpu.target not in built.targets:
        return f"it is for {', '.join(built.targets)}, and the GPU here is {gpu.name}, {gpu.target}"
    return ""
