"""Provides the engine to time: an existing one, or one that is built from a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from trtsmith.converter.base.arrays import ArraySource, load_arrays, named_source
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.kinds import ARRAYS, NUMBER, SHAPES, WORDS, Flag, texts_of
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.bench.baseline_worker import BASELINES
from trtsmith.converter.bench.layers import LayerNode, nodes_of
from trtsmith.converter.bench.points import Point, check_points, given_point, points_of
from trtsmith.converter.bench.timed_engine import TimingOptions
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.pipeline import convert
from trtsmith.converter.engine.builder.flavour import expected_target
from trtsmith.converter.engine.bundle.run_from_bundle import request_as_asked
from trtsmith.converter.engine.runtime.run_in_child import describe_engine
from trtsmith.converter.engine.runtime.run_request import RunningOptions, RunRequest
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.plugin import creators
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import OPS

MODEL_SUFFIX = ".onnx"


@dataclass(frozen=True, kw_only=True)
class BenchInputs:
    """Sizes and inputs of the timed runs."""

    TITLE: ClassVar[str] = "inputs"

    shapes: Annotated[
        Mapping[str, ShapeRange],
        Flag(
            "for an engine: the shape to time at, such as images=1x3x640x640; for a model: the profile, as for `convert`",
            "NAME=SHAPE",
            common=True,
            kind=SHAPES,
        ),
    ] = field(default_factory=dict)
    at: Annotated[
        tuple[str, ...],
        Flag(
            "points of the profile to time at: min, opt, max (opt)",
            "POINT,...",
            common=True,
            kind=replace(WORDS, read=lambda given, name: check_points(texts_of(given))),
        ),
    ] = ("opt",)
    inputs: Annotated[
        ArraySource | None,
        Flag("inputs by name; default: generated random numbers", "NPZ", common=True, kind=ARRAYS),
    ] = None
    freeze: Annotated[tuple[str, ...], Flag("for a model: as for `convert`", "NAME=VALUE")] = ()


@dataclass(frozen=True, kw_only=True)
class BaselineOptions:
    """Other runtimes and forms of the model to time."""

    TITLE: ClassVar[str] = "comparison, for a model"

    against: Annotated[
        tuple[str, ...],
        Flag(
            "; ".join(f"{name}: {text}" for name, text in BASELINES.items()),
            "NAME,...",
            common=True,
            kind=WORDS,
        ),
    ] = ()
    torch: Annotated[
        str,
        Flag(
            "function that takes the inputs by name as tensors, and returns a callable without arguments that returns "
            "the outputs",
            "MODULE:FUNCTION",
        ),
    ] = ""
    plugin_vs_native: Annotated[
        bool, Flag("time the model with plugins, and with their expansions into standard operators")
    ] = False


@dataclass(frozen=True)
class BenchOptions(BenchInputs, BaselineOptions, RunningOptions):
    """The options of `trtsmith bench`. target: an engine, or a model if its name ends in .onnx."""

    target: Path
    timing: TimingOptions = field(default_factory=TimingOptions)
    layers: Annotated[
        int,
        Flag(
            "show the N slowest layers, and the shares of operators and plugins; 0: no profile (10)",
            "N",
            common=True,
            kind=replace(NUMBER, read=lambda given, name: max(given, 0)),
        ),
    ] = 10
    verbose: bool = False

    @property
    def is_model(self) -> bool:
        return self.target.suffix == MODEL_SUFFIX


@dataclass(frozen=True)
class BuildSource:
    """The model that engines are built from, rewritten once."""

    original: Model
    rewritten: Rewritten
    frozen: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """An engine, ready to be timed. nodes: of the graph that it was built from, where that is known."""

    run: RunRequest
    info: EngineInfo
    nodes: Mapping[str, LayerNode]


def open_source(options: BenchOptions) -> BuildSource:
    """Loads and rewrites the model as `convert` does. Raises TrtsmithError if that is not possible."""
    original = load_model(options.target)
    asked = AnalysisOptions(
        expected_target(options.flavour),
        tuple(options.freeze),
        inputs=options.inputs,
        profiles=(options.shapes,),
    )
    analysis = analyse(original, asked)
    return BuildSource(original, analysis.rewritten, analysis.frozen)


def given_engine(options: BenchOptions) -> Subject:
    """Opens the engine that the user names, by its manifest. Raises UsageError if it cannot be run."""
    run = request_as_asked(options.target, options, verbose=options.verbose)
    return Subject(run, describe_engine(run), {})


def plugin_engine(options: BenchOptions, source: BuildSource, folder: Path, progress: Progress) -> Subject:
    """Builds the model as `trtsmith convert` does."""
    run = _built(options, options.target, folder / "plugin.plan", progress)
    foreign = creators.foreign_creators(options.plugins)
    return Subject(run, describe_engine(run), nodes_of(source.rewritten.model.proto, foreign))


def native_engine(options: BenchOptions, source: BuildSource, folder: Path, progress: Progress) -> Subject:
    """Builds the model without our plugins: see `native_graph`."""
    path = folder / "native.onnx"
    native = native_graph(options, source)
    save_model(native, path)
    examples = None if source.rewritten.io_types else options.inputs  # they are of the model's types
    run = _built(replace(options, freeze=(), inputs=examples), path, folder / "native.plan", progress)
    # the rewritten graph's inputs have the engine's types already; the feeds have the model's
    run = replace(run, io_types=(*source.rewritten.io_types, *run.io_types))
    return Subject(run, describe_engine(run), nodes_of(native.proto))


def native_graph(options: BenchOptions, source: BuildSource) -> Model:
    """Expands every one of our plugin nodes into standard operators.

    What a rule has given to a plugin by its pattern of ONNX's nodes is written as the other rules do it. ConversionError
    where they cannot.
    """
    patterns = {rule.name for rule in RULES} & {op.chain for op in OPS}
    recognised = {(PLUGIN_NAMESPACE, op.name) for op in OPS if op.chain in patterns}
    rewritten = source.rewritten
    if not recognised.isdisjoint(Graph(rewritten.model).kinds()):
        rewritten = rewrite(
            source.original,
            rewritten.target,
            freeze=source.frozen,
            profile=AnalysisOptions(profiles=(options.shapes,)).ranges,
            rules=[rule for rule in RULES if rule.name not in patterns],
        )
        if problems := [record.problem() for record in rewritten.declined if record.fatal]:
            raise ConversionError(problems)
    return expand(rewritten.model)


def points_for(
    options: BenchOptions, info: EngineInfo, run: RunRequest, source: BuildSource | None
) -> list[Point]:
    """Returns the inputs at which to time. Raises UsageError for shapes that the engine does not take."""
    if options.inputs is not None:
        arrays = load_arrays(options.inputs, "--inputs")
        frozen = source.frozen if source is not None else {}
        return [given_point(info, {name: a for name, a in arrays.items() if name not in frozen})]
    shapes = {} if options.is_model else options.shapes  # of a model they are the profile
    return points_of(info, options.at, shapes, run.io_types, source.original if source is not None else None)


def check_options(options: BenchOptions) -> None:
    """Raises UsageError for flags that contradict each other or the target."""
    if problems := list(_problems(options)):
        raise UsageError(problems)


def _problems(options: BenchOptions) -> Iterator[Problem]:
    if options.inputs is not None and (options.at != ("opt",) or (options.shapes and not options.is_model)):
        what, expected = "--inputs already sets the shapes", "--inputs without --at and --shapes"
        yield Problem(what, named_source("--inputs", options.inputs), expected, "leave the other flag out")
    if options.is_model:
        return
    if options.shapes and options.at != ("opt",):
        what, expected = "shapes are given twice", "either --shapes or --at"
        yield Problem(what, f"--at {','.join(options.at)}", expected, "leave one of them out")
    for flag, given in (("--freeze", options.freeze), ("--plugin-vs-native", options.plugin_vs_native)):
        if given:
            what, where = f"{flag} needs a model, and an engine is given", f"{flag}, {options.target}"
            fix = f"trtsmith bench MODEL, a file whose name ends in {MODEL_SUFFIX}"
            yield Problem(what, where, "a model to build", fix)


def _built(options: BenchOptions, model: Path, engine: Path, progress: Progress) -> RunRequest:
    convert(
        ConvertOptions(
            model=model,
            output=engine,
            shapes=dict(options.shapes),
            freeze=options.freeze,
            inputs=options.inputs,
            plugins=options.plugins,
            flavour=options.flavour,
            verify=None,
            layer_details=options.layers > 0,
            timeout_s=options.timeout_s,
            verbose=options.verbose,
        ),
        progress,
    )
    return request_as_asked(engine, options, verbose=options.verbose)
