"""Converts a model in stages, on one screen: load, rewrite, plan, build, verify, bundle."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.errors import BuildRefused, ConversionError, TrtsmithError, problems_named
from trtsmith.converter.base.options.shapes import ShapeRange, graph_inputs, profile_for
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import CACHE
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress, Steps, progress_reports
from trtsmith.converter.convert.analysis import Analysis, TrialInputs, analyse
from trtsmith.converter.convert.branch_inputs import freeze_text, offer_freezing
from trtsmith.converter.convert.comparison import GraphComparison, precision_to_judge_by
from trtsmith.converter.convert.conversion import Conversion
from trtsmith.converter.convert.conversion_options import ConvertOptions, analysis_options
from trtsmith.converter.convert.facts import (
    contradictions,
    coverage,
    engine_facts,
    pinned_values,
    profile_facts,
    still_read,
    unchecked_values,
)
from trtsmith.converter.convert.opening import has_example, name_of, open_model
from trtsmith.converter.convert.plan import needed_libraries
from trtsmith.converter.convert.precision import precision_facts
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.pytorch.torch_source import TorchSource
from trtsmith.converter.convert.quantize.samples import load_samples
from trtsmith.converter.convert.refitting import refit_facts
from trtsmith.converter.convert.trial_inputs import shape_tensor_values, usual_inputs, with_example
from trtsmith.converter.convert.workarounds.building import MendedBuild, build_mended
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.builder.build import check_targets
from trtsmith.converter.engine.builder.build_request import (
    BuildRequest,
    BuildResult,
    Profile,
)
from trtsmith.converter.engine.builder.deployment import check_settings
from trtsmith.converter.engine.builder.flavour import expected_target
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.bundle.bundle import check_output, manifest_path, write_bundle
from trtsmith.converter.engine.bundle.device_folder import (
    check_folder,
    check_names,
    device_libraries,
    not_built,
    write_folder,
)
from trtsmith.converter.engine.bundle.earlier_engine import check_replaced
from trtsmith.converter.engine.bundle.origin import origin_facts
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.reduction.reproducer import check_refused_path
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.node_functions import calling
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.conversion_check import ComparisonRequest, ConversionCheck, prepare
from trtsmith.converter.verify.references import (
    NO_REFERENCES,
    check_known,
)


def convert(options: ConvertOptions, progress: Progress) -> Conversion:
    """Converts a model into an engine. Raises TrtsmithError with every problem if that is impossible."""
    with calling(options.references.nodes), progress_reports(progress) as telling:
        return _convert(options, telling)


def _convert(options: ConvertOptions, progress: Steps) -> Conversion:
    clock = _StageTimes(progress)
    progress.step("loading the model")
    _check_files(options)
    if not options.bundle_for:
        check_settings(expected_target(options.flavour).flavour, options.settings, find_gpu() is not None)
    here = options.targets and not options.bundle_for
    if here and isinstance(options.model, TorchSource):  # before an export, which can take minutes
        check_targets(options.flavour, options.targets)
    opened = open_model(options.model, progress, force=options.force)
    original, given = opened.model, options.inputs is not None
    check_known(options.references, original)
    options = with_example(options, opened)
    clock.ended(then="rewrite and plan")
    prepared = _Preparation(options, progress.step)
    asked = replace(analysis_options(options), progress=progress)
    analysis = analyse(original, asked, prepared.feeds, given=given).needed()
    prepared.once(analysis)
    planned, rewritten, check = analysis.plan, analysis.rewritten, prepared.check
    loaded = needed_libraries(planned, options.plugins)
    _check_files(options, loaded)
    held: dict[str, bytes] = {}
    if options.bundle_for:
        check_names(rewritten.model.proto.graph)
    if options.bundle_for and loaded:
        others = [path for path in loaded if path.name != plugin_library().name]
        held = device_libraries(options.bundle_for, options.plugins_aarch64, others)
    values = still_read(prepared.values, original, rewritten)
    profiles = _profiles((prepared.profile, *prepared.more), values)
    clock.ended(then="build")

    with ScratchFolder("convert") as folder:
        graph = Path(folder) / "model.onnx"
        progress.step("saving the rewritten graph")
        with problems_named(graph, options.model):
            request = BuildRequest(
                onnx_path=graph,
                engine_path=graph.with_name("engine"),
                plugin_libraries=loaded,
                plugins=(*planned.plugins, *planned.foreign),
                profiles=profiles,
                **vars(options.builder()),
            )
            comparison = GraphComparison(check, options, analysis, progress)
            try:
                if options.bundle_for:
                    done = MendedBuild(not_built(rewritten.model, request), rewritten.model, ())
                else:
                    comparison.begin()
                    done = build_mended(rewritten.model, request, options.refusals, progress, comparison.stop)
            except BuildRefused as error:
                raise _with_offer(error, options, analysis, progress) from error
            except BaseException:
                comparison.stop()
                raise
        built = done.built
        if done.mended:
            rewritten = rewritten.with_model(done.model)
        clock.ended(then="verify" if check is not None else "bundle")
        wrong = contradictions(original.proto.graph.output, built.outputs, planned)
        if wrong:
            comparison.stop()
            raise ConversionError(wrong)
        judged, verdict = comparison.judged(rewritten), None
        if check is not None and judged is not None:
            verdict = check.run(judged, built, _run_request(options, rewritten, built, loaded))
            clock.ended(then="bundle")
        warnings = (
            *opened.warnings,
            *rewritten.warnings(),
            *planned.warnings,
            *pinned_values(values, options.values),
            *unchecked_values(prepared.values, values),
            *(one.warning() for one in done.mended),
            *built.warnings,
            *(() if check is None else check.source.warnings([check.feeds])),
            *(() if options.bundle_for else coverage(planned, built)),
        )
        facts = (
            engine_facts(planned, built, verdict)
            | origin_facts(original, analysis.frozen, name_of(options.model))
            | _graph_facts(options, rewritten, profiles)
            | refit_facts(rewritten.model, options.settings)
            | {
                "prefer_stock": options.prefer_stock,
                "plugins_embedded": bool(options.embed_plugins and loaded),
                "settings": options.settings,
                "mended": [asdict(one) for one in done.mended],
                "warnings": warnings,
            }
            | ({} if opened.calling is None else {"calling": opened.calling})
        )
        progress.step("writing the bundle")
        bundle, engine = None, b""
        if options.bundle_for and options.output and check and judged and verdict:
            precision = precision_to_judge_by(options, rewritten)
            there = check.elsewhere(rewritten, precision, verdict, judged.baseline)
            arrays = {"inputs": there.inputs, "expected": there.expected, "bounds": there.bounds}
            accepted = () if options.tolerances is None else options.tolerances.not_compared
            outputs = there.entries([tensor.name for tensor in built.outputs], accepted)
            bundle = write_folder(options.output, rewritten.model, request, held, arrays, outputs, facts)
        elif options.output is None:
            engine = built.engine_path.read_bytes() if options.keep else b""
        else:
            bundle = write_bundle(built.engine_path, options.output, loaded, facts)
        clock.ended()
    warnings += () if bundle is None else bundle.warnings
    return Conversion(
        planned,
        rewritten,
        built,
        verdict,
        bundle,
        clock.seconds,
        warnings,
        engine if bundle is None else bundle.engine,
        () if options.embed_plugins else loaded if bundle is None else bundle.libraries,
        opened.calling,
        done.mended,
        original,
    )


def _with_offer(
    error: BuildRefused, options: ConvertOptions, analysis: Analysis, progress: Steps
) -> BuildRefused:
    """The refusal, with --freeze for inputs that choose branches if the model builds with it."""
    if not options.refusals.reduce or isinstance(options.model, TorchSource):
        return error  # nothing is to be looked for, or the model would be exported again

    def builds(values: Mapping[str, np.ndarray]) -> bool:
        texts = [freeze_text(*item) for item in values.items()]
        progress.step(f"trying to build with {' '.join(texts)} frozen")
        freeze = options.freeze
        frozen = {**freeze, **values} if isinstance(freeze, Mapping) else [*freeze, *texts]
        trial = replace(options, output=None, keep=False, freeze=frozen, refusals=Refusals(reduce=False))
        with suppress(TrtsmithError):
            convert(replace(trial, verify=None, expected=None, references=NO_REFERENCES), _silent)
            return True
        return False

    examples = {} if options.inputs is None else load_arrays(options.inputs, "--inputs")
    return offer_freezing(error, analysis.original, examples, analysis.frozen, builds)


def _silent(text: str) -> None:
    del text


def analysis_of(options: ConvertOptions) -> Analysis | None:
    """Analyses an ONNX model that could not be converted, in its own precision; None for PyTorch models, which would be
    exported again. Raises TrtsmithError if it cannot be read or analysed.
    """
    if not isinstance(options.model, Path) or has_example(options.model):
        return None
    return analyse(
        load_model(options.model), replace(analysis_options(options), precision=PrecisionRequest())
    )


def _graph_facts(
    options: ConvertOptions, rewritten: Rewritten, profiles: tuple[dict[str, Profile], ...]
) -> dict[str, Any]:
    """The manifest's facts on the engine's graph."""
    return {
        "profiles": [{name: asdict(sizes) for name, sizes in one.items()} for one in profiles],
        "io_types": [asdict(io) for io in rewritten.io_types],
        **precision_facts(options.precision, rewritten.precision),
        **profile_facts(rewritten, options.values),
    }


def _check_files(options: ConvertOptions, loaded: tuple[Path, ...] | None = None) -> None:
    """Raises UsageError for files that cannot be written or would replace others. loaded: plugin libraries, once known."""
    output = options.output
    if output is not None and options.bundle_for:
        check_folder(output)
    elif output is not None:
        model = options.model if isinstance(options.model, Path) else None
        libraries = options.plugins if loaded is None else loaded
        check_output(output, model, libraries)
        if not options.force:
            check_replaced(output, name_of(options.model), libraries)
    if loaded is None:
        written = () if output is None else (output, manifest_path(output))
        files = (options.model, *written, options.inputs, options.expected, *options.plugins)
        check_refused_path(options.refusals.file, files, force=options.force)
        cache = options.timing_cache
        check_report(cache, files, "--timing-cache", "the timing cache", CACHE, force=options.force)


class _Preparation:
    """The profile and the comparison, prepared once from the graph in the model's own precision."""

    def __init__(self, options: ConvertOptions, step: Progress) -> None:
        self._options, self._step = options, step
        self._done = False
        self.profile: Mapping[str, ShapeRange] = {}
        self.more: list[Mapping[str, ShapeRange]] = []
        self.values: Mapping[str, ShapeRange] = {}
        self.check: ConversionCheck | None = None

    def once(self, analysis: Analysis) -> None:
        if self._done:
            return
        self._done = True
        options, original = self._options, analysis.original
        specs = [spec for spec in graph_inputs(original.proto) if spec.name not in analysis.frozen]
        self.profile = profile_for(specs, options.shapes)
        self.more = [profile_for(specs, one) for one in options.more_shapes]
        self.values = shape_tensor_values(options, analysis.plain, specs)
        if options.verify is not None:
            self._step("preparing inputs for the comparison")
            request = ComparisonRequest(
                options.inputs,
                options.expected,
                options.tolerances,
                "graph" if "strip_plan" in options.settings else options.verify,
                options.references,
                load_samples(options.precision.calibration, specs),
            )
            profiles = (self.profile, *self.more)
            self.check = prepare(original, specs, profiles, self.values, analysis.frozen, request)

    def feeds(self, analysis: Analysis) -> TrialInputs:
        """Inputs of the comparison; the precision phase runs on them, too. Without a comparison, the same inputs."""
        self.once(analysis)
        if self.check is None:
            return usual_inputs(self._options, analysis)
        generation = self.check.source.generation
        return TrialInputs(self.check.feeds, frozenset() if generation is None else generation.drawn)


def _run_request(
    options: ConvertOptions, rewritten: Rewritten, built: BuildResult, loaded: tuple[Path, ...]
) -> RunRequest:
    """The request to run the engine that was built."""
    return RunRequest(
        engine_path=built.engine_path,
        plugin_libraries=() if options.embed_plugins else loaded,
        flavour=built.flavour,
        io_types=rewritten.io_types,
        verbose=options.verbose,
        timeout_s=options.timeout_s,
        embedded_plugins=options.embed_plugins or "version_compatible" in options.settings,
        built_version=built.version,
        targets=built.targets,
    )


def _profiles(
    sizes: Sequence[Mapping[str, ShapeRange]], values: Mapping[str, ShapeRange]
) -> tuple[dict[str, Profile], ...]:
    of_values = {name: Profile(r.min, r.opt, r.max, values=True) for name, r in values.items()}
    profiles = [{name: Profile(r.min, r.opt, r.max) for name, r in one.items()} | of_values for one in sizes]
    return tuple(profiles) if any(profiles) else ()


_SKIPS = {"verify": "--no-verify skips the comparison"}
"""By stage, what leaves it out."""


class _StageTimes:
    """Measures and reports the seconds of each stage."""

    def __init__(self, progress: Steps) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self.begin("load")

    def begin(self, stage: str) -> None:
        self._stage, self._since = stage, time.perf_counter()
        self._progress.stage(stage, _SKIPS.get(stage, ""))

    def ended(self, then: str = "") -> None:
        """Ends the stage and begins the next one at once."""
        stage, seconds = self._stage, round(time.perf_counter() - self._since, 3)
        self.seconds[stage] = seconds
        self._progress.done(f"{stage}: {seconds:.1f} s")
        self.begin(then)
