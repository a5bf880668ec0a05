"""Converts a model, on one screen: load, rewrite, plan, build, verify, bundle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.errors import BuildRefused, ConversionError, TrtsmithError, problems_named
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress, Steps, progress_reports, silent
from trtsmith.converter.convert.analysis import Analysis, analyse
from trtsmith.converter.convert.branch_inputs import freeze_text, offer_freezing
from trtsmith.converter.convert.comparison import GraphComparison
from trtsmith.converter.convert.conversion import Conversion
from trtsmith.converter.convert.conversion_options import ConvertOptions, analysis_options
from trtsmith.converter.convert.destination import Destination, destination_of
from trtsmith.converter.convert.facts import (
    contradictions,
    engine_facts,
    pinned_values,
    profile_facts,
    still_read,
    unchecked_values,
)
from trtsmith.converter.convert.opening import has_example, name_of, open_model
from trtsmith.converter.convert.plan import Plan, needed_libraries
from trtsmith.converter.convert.precision import precision_facts
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.preparation import Preparation
from trtsmith.converter.convert.pytorch.torch_source import TorchSource
from trtsmith.converter.convert.refitting import refit_facts
from trtsmith.converter.convert.trial_inputs import with_example
from trtsmith.converter.convert.workarounds.building import MendedBuild
from trtsmith.converter.convert.workarounds.refusals import Mended, Refusals
from trtsmith.converter.engine.builder.build_request import (
    BuildRequest,
    BuildResult,
    Profile,
)
from trtsmith.converter.engine.bundle.origin import origin_facts
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import calling
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.references import (
    NO_REFERENCES,
    check_known,
)
from trtsmith.converter.verify.verdict_words import with_files


def convert(options: ConvertOptions, progress: Progress) -> Conversion:
    """Model in, engine out. TrtsmithError with every problem at once if it cannot be done."""
    with calling(options.references.nodes), progress_reports(progress) as telling:
        return _convert(options, telling)


def _convert(options: ConvertOptions, progress: Steps) -> Conversion:
    clock = _StageTimes(progress)
    progress.step("loading the model")
    destination = destination_of(options)
    destination.check()
    opened = open_model(options.model, progress, force=options.force)
    check_known(options.references, opened.model)
    given, options = options.inputs is not None, with_example(options, opened)
    clock.ended(then="rewrite and plan")
    prepared = Preparation(options, progress.step)
    asked = replace(analysis_options(options), progress=progress)
    analysis = analyse(opened.model, asked, prepared.feeds, given=given).needed()
    prepared.once(analysis)
    loaded = needed_libraries(analysis.plan, options.plugins)
    destination.check_graph(analysis.rewritten, loaded)
    values = still_read(prepared.values, opened.model, analysis.rewritten)
    clock.ended(then="build")
    with ScratchFolder("convert") as folder:
        progress.step("saving the rewritten graph")
        request = build_request(options, analysis.plan, prepared.profiles(values), Path(folder), loaded)
        with GraphComparison(prepared.check, options, analysis, progress) as comparison:
            done = _built(destination, request, comparison, options, analysis, progress)
            clock.ended(then="verify" if prepared.check is not None else "bundle")
            _check_shapes(opened.model, done.built, analysis.plan)
            rewritten = analysis.rewritten.with_model(done.model) if done.mended else analysis.rewritten
            run = run_request(options, rewritten, done.built, loaded)
            verdict = comparison.verdict(rewritten, done.built, run)
        if verdict is not None:
            clock.ended(then="bundle")
        warnings = (
            *opened.warnings,
            *(() if options.recipe is None else options.recipe.warnings(opened.model)),
            *rewritten.warnings(),
            *analysis.plan.warnings,
            *pinned_values(values, options.values),
            *unchecked_values(prepared.values, values),
            *(one.warning() for one in done.mended),
            *done.built.warnings,
            *prepared.warnings(),
            *destination.warnings(analysis.plan, done.built),
        )
        facts = (
            engine_facts(analysis.plan, done.built, verdict)
            | origin_facts(opened.model, analysis.frozen, name_of(options.model))
            | _graph_facts(options, rewritten, request.profiles)
            | refit_facts(rewritten.model, options.settings)
            | _option_facts(options, loaded, done.mended, warnings)
            | ({} if opened.calling is None else {"calling": opened.calling})
        )
        progress.step("writing the bundle")
        written = destination.write(rewritten, request, done.built, comparison, facts)
        clock.ended()
    bundle = None if isinstance(written, bytes) else written
    return Conversion(
        plan=analysis.plan,
        rewritten=rewritten,
        built=done.built,
        verdict=verdict,
        bundle=bundle,
        seconds=clock.seconds,
        warnings=(*warnings, *(() if bundle is None else bundle.warnings)),
        engine=written if isinstance(written, bytes) else written.engine,
        libraries=() if options.embed_plugins else loaded if bundle is None else bundle.libraries,
        calling=opened.calling,
        mended=done.mended,
        advice=""
        if verdict is None
        else with_files(verdict.advice, options.model, options.output or "ENGINE"),
        original=opened.model,
    )


def build_request(
    options: ConvertOptions,
    planned: Plan,
    profiles: tuple[Mapping[str, Profile], ...],
    folder: Path,
    loaded: tuple[Path, ...],
) -> BuildRequest:
    """Asks for an engine of the graph, both in this folder. loaded: the plugin libraries."""
    return BuildRequest(
        onnx_path=folder / "model.onnx",
        engine_path=folder / "engine",
        plugin_libraries=loaded,
        plugins=(*planned.plugins, *planned.foreign),
        profiles=profiles,
        **vars(options.builder()),
    )


def _built(
    destination: Destination,
    request: BuildRequest,
    comparison: GraphComparison,
    options: ConvertOptions,
    analysis: Analysis,
    progress: Steps,
) -> MendedBuild:
    """The engine. Problems with the rewritten graph are problems with the user's model."""
    with problems_named(request.onnx_path, options.model):
        try:
            return destination.build(analysis.rewritten, request, comparison, progress)
        except BuildRefused as error:
            raise _with_offer(error, options, analysis, progress) from error


def _check_shapes(original: Model, built: BuildResult, planned: Plan) -> None:
    """Raises ConversionError for outputs of the engine that have other shapes than the model's."""
    wrong = contradictions(original.proto.graph.output, built.outputs, planned)
    if wrong:
        raise ConversionError(wrong)


def _with_offer(
    error: BuildRefused, options: ConvertOptions, analysis: Analysis, progress: Steps
) -> BuildRefused:
    """The refusal, with --freeze for inputs that choose branches, where the model builds with it."""
    if not options.refusals.reduce or isinstance(options.model, TorchSource):
        return error  # nothing is to be looked for, or the model would be exported again

    def builds(values: Mapping[str, np.ndarray]) -> bool:
        texts = [freeze_text(*item) for item in values.items()]
        progress.step(f"trying to build with {' '.join(texts)} frozen")
        freeze = options.freeze
        frozen = {**freeze, **values} if isinstance(freeze, Mapping) else [*freeze, *texts]
        trial = replace(options, output=None, keep=False, freeze=frozen, refusals=Refusals(reduce=False))
        with suppress(TrtsmithError):
            convert(replace(trial, verify=None, expected=None, references=NO_REFERENCES), silent)
            return True
        return False

    examples = {} if options.inputs is None else load_arrays(options.inputs, "--inputs")
    return offer_freezing(error, analysis.original, examples, analysis.frozen, builds)


def analysis_of(options: ConvertOptions) -> Analysis | None:
    """What is known of an ONNX model that could not be converted, in its own precision; None of PyTorch's, which would
    have to be exported again. TrtsmithError where it cannot be read or analysed."""
    if not isinstance(options.model, Path) or has_example(options.model):
        return None
    return analyse(
        load_model(options.model), replace(analysis_options(options), precision=PrecisionRequest())
    )


def _graph_facts(
    options: ConvertOptions, rewritten: Rewritten, profiles: tuple[Mapping[str, Profile], ...]
) -> dict[str, Any]:
    """What the manifest says of the graph that the engine is of."""
    return {
        "profiles": [{name: asdict(sizes) for name, sizes in one.items()} for one in profiles],
        "io_types": [asdict(io) for io in rewritten.io_types],
        **precision_facts(options.precision, rewritten.precision),
        **profile_facts(rewritten, options.values),
    }


def _option_facts(
    options: ConvertOptions, loaded: tuple[Path, ...], mended: tuple[Mended, ...], warnings: tuple[str, ...]
) -> dict[str, Any]:
    """Gathers the manifest's facts of the options and of what they led to."""
    return {
        "prefer_stock": options.prefer_stock,
        "plugins_embedded": bool(options.embed_plugins and loaded),
        "settings": options.settings,
        "mended": [asdict(one) for one in mended],
        "warnings": warnings,
    }


def run_request(
    options: ConvertOptions, rewritten: Rewritten, built: BuildResult, loaded: tuple[Path, ...]
) -> RunRequest:
    """How to run the engine that was built."""
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


_SKIPS = {"verify": "--no-verify skips the comparison"}
"""By stage, what leaves it out."""


class _StageTimes:
    """Seconds by stage, each told when it ends."""

    def __init__(self, progress: Steps) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self.begin("load")

    def begin(self, stage: str) -> None:
        self._stage, self._since = stage, time.perf_counter()
        self._progress.stage(stage, _SKIPS.get(stage, ""))

    def ended(self, then: str = "") -> None:
        """The stage has ended; the next one begins at once."""
        stage, seconds = self._stage, round(time.perf_counter() - self._since, 3)
        self.seconds[stage] = seconds
        self._progress.done(f"{stage}: {seconds:.1f} s")
        self.begin(then)
