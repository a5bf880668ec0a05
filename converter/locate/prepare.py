"""Prepares a search from the user's options: model, inputs, executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from trtsmith.converter.base.arrays import told_source
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.kinds import KINDS, MEBIBYTES, SHAPES, VALUES, Flag
from trtsmith.converter.base.options.shape_tensors import value_profile, values_as_input
from trtsmith.converter.base.options.shapes import ShapeRange, graph_inputs, profile_for
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.engine_analysis import analysis_of_engine
from trtsmith.converter.convert.foreign_nodes import foreign_plugins
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.plan import Plan, library_of_plugins
from trtsmith.converter.convert.precision import floats_decided
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.flavour import choose_flavour, expected_target
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.bundle.origin import EngineOrigin, origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_as_asked
from trtsmith.converter.engine.runtime.run_in_child import run_engine
from trtsmith.converter.engine.runtime.run_request import RunningOptions
from trtsmith.converter.locate.executors.emulation import Emulation
from trtsmith.converter.locate.executors.executor import Executor
from trtsmith.converter.locate.executors.kernels import OnKernels
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT, RunEngine
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.locate_fault import SearchGround, locate
from trtsmith.converter.locate.reduced_precision import precision_asked, reduction_of, searched
from trtsmith.converter.locate.save_repro import check_folder
from trtsmith.converter.locate.searched_graph import MEMORY, ReplayKernel, SearchOptions
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.plugin.calls import KernelsByPlugin
from trtsmith.converter.plugin.replay import Replay, case_of, replay
from trtsmith.converter.rewrite.freeze import shape_inputs
from trtsmith.converter.rewrite.precision.formats import FORMATS, FP16
from trtsmith.converter.rewrite.precision.sums import longest_sum
from trtsmith.converter.rewrite.rewrite import Rewritten, expand
from trtsmith.converter.rewrite.types import to_engine
from trtsmith.converter.verify.baseline import Arithmetic, Baseline, Original
from trtsmith.converter.verify.given import load_inputs
from trtsmith.converter.verify.inputs import generate_inputs
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns
from trtsmith.converter.verify.rounding import FP16_SUMS, engine_precision
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.importers.opdef import Arrays

TENSORRT, KERNELS, EMULATION = "tensorrt", "kernels", "emulation"
KERNEL_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class SearchForm:
    """The settings of a search. memory: in bytes."""

    TITLE: ClassVar[str] = "search"

    on: Annotated[
        str,
        Flag(
            "kernels: run plugin nodes in the plugin host and the others in onnxruntime, without TensorRT. emulation: "
            "round values to --precision in onnxruntime, without a GPU. auto: tensorrt if it is installed, but emulation "
            "for --precision fp16 and bf16 if there is no GPU",
            common=True,
            kind=KINDS["ExecutorName"],
        ),
    ] = "auto"
    native: Annotated[bool, Flag("build plugin nodes from standard operators, without the plugins")] = False
    everything: Annotated[bool, Flag("continue after the first faulty node", common=True, keyword="all")] = (
        False
    )
    memory: Annotated[
        int,
        Flag(
            f"memory for intermediate values at a time ({MEMORY >> 20}): once on the device, twice on the host",
            "MIB",
            default=MEMORY >> 20,
            kind=replace(MEBIBYTES, read=lambda given, name: given << 20),
        ),
    ] = MEMORY


@dataclass(frozen=True, kw_only=True)
class SearchSizes:
    TITLE: ClassVar[str] = "shapes and inputs"

    shapes: Annotated[
        dict[str, ShapeRange], Flag("as for convert", "NAME=MIN:OPT:MAX", common=True, kind=SHAPES)
    ] = field(default_factory=dict)
    values: Annotated[dict[str, ShapeRange], Flag("as for convert", "NAME=MIN:OPT:MAX", kind=VALUES)] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class LocateOptions(SearchForm, SearchSizes, FreezingOptions, RunningOptions):
    """The options of `trtsmith locate`.

    timeout_s: for each build and each run. precision: of a graph without an engine.
    arithmetic: by what precision outputs are allowed to differ (verify.rounding.PRECISIONS); "": the graph's.
    feeds, frozen: inputs, and those of them that are constants in the engine, where they are known already.
    folder: as SearchOptions has it. tolerances: of the model's outputs.
    force: whether `folder` may hold anybody's files, under the names of ours.
    """

    model: ModelSource
    engine: Path | None = None
    precision: PrecisionRequest = field(default_factory=PrecisionRequest)
    arithmetic: str = ""
    feeds: Arrays | None = None
    frozen: Arrays | None = None
    folder: Path | None = None
    tolerances: Tolerances = field(default_factory=Tolerances)
    force: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedSearch(SearchGround):
    """The arguments of `locate`.

    plan:    how the nodes of the rewritten graph reach TensorRT.
    outputs: the engine's for these inputs, in its own types; None without an engine.
    rounding: what the executor's precision changes of the model's outputs; None where it computes as onnxruntime does.
    """

    plan: Plan
    outputs: Arrays | None
    rounding: RoundedRuns | None


@contextmanager
def prepared(asked: LocateOptions, run: RunEngine = run_engine) -> Iterator[PreparedSearch]:
    """Prepares a search, as a context manager. Raises the stages' UsageError and ConversionError.

    run: runs an engine: trtsmith.converter.engine.runtime.run_in_child.run_engine.
    """
    if asked.folder is not None:
        check_folder(asked.folder, force=asked.force)
    original = load_model(asked.model)
    request, origin = None, EngineOrigin()
    if asked.engine is not None:
        request = request_as_asked(asked.engine, asked)
        origin = origin_of(asked.engine)
    flavour = asked.flavour if request is None else request.flavour
    precision = precision_asked(
        asked.precision, origin, () if request is None else request.io_types, asked.engine
    )
    if request is None:
        target = replace(expected_target(flavour), float_lstm=asked.precision.float_lstm)
        options = AnalysisOptions(
            target, plugins=asked.plugins, profiles=(asked.shapes,), values=(asked.values,)
        )
    else:
        options = replace(analysis_of_engine(origin, request), precision=PrecisionRequest())
        asked = replace(
            asked, shapes=_known(origin.profiles, asked.shapes), values=_known(origin.values, asked.values)
        )
    options = replace(options, freeze=asked.freeze, frozen=asked.frozen, inputs=asked.inputs)
    analysis = analyse(original, replace(options, compiled=not asked.native)).needed()
    rewritten, planned = analysis.rewritten, analysis.plan
    feeds = _feeds(asked, original, rewritten, analysis.frozen)
    reduced = searched(rewritten, precision, feeds, origin, asked.engine)
    reduction = reduction_of(rewritten, reduced, precision)
    if asked.native:
        rewritten, reduced = _native(rewritten), _native(reduced)
        reduction = reduction.followed_by(_native) if reduction is not None else None
    outputs, extra = None, asked.plugins
    if request is not None:
        left = {v.name: feeds[v.name] for v in reduced.model.proto.graph.input if v.name in feeds}
        given = to_engine(left, reduced.io_types)
        outputs = run(replace(request, io_types=()), [given]).outputs[0]
        extra = request.plugin_libraries
    known = {} if asked.native else library_of_plugins(planned, extra)
    with KernelsByPlugin(known, KERNEL_TIMEOUT_S) as kernels:
        sums = longest_sum(reduced.target, FP16) is not None
        executor: Executor
        chosen = _chosen(asked, planned, precision)
        if chosen == EMULATION:
            executor = Emulation(float16_sums=sums and precision.format is FP16)
        elif chosen == TENSORRT:
            loaded = tuple(dict.fromkeys((*known.values(), *extra)))
            foreign = foreign_plugins(asked.plugins, rewritten.target)
            here = asked.engine is not None or find_gpu() is not None  # an engine ran already
            executor = OnTensorRT(
                build, run, loaded, foreign, asked.shapes, flavour, asked.timeout_s, sums, here
            )
        else:
            executor = OnKernels(kernels)
        arithmetic = asked.arithmetic or engine_precision(precision.precision, float16_sums=sums)
        rounds = executor.fuses or arithmetic in (*FORMATS, FP16_SUMS)
        wide = floats_decided(precision, reduced.precision)
        rounding = _rounding(Original(original, wide=wide), feeds, arithmetic, reduced) if rounds else None
        yield PreparedSearch(
            original,
            rewritten,
            feeds,
            executor,
            _told(asked),
            replay_with(known),
            reduced,
            reduction,
            plan=planned,
            outputs=outputs,
            rounding=rounding,
        )


def locate_prepared(ready: PreparedSearch, asked: LocateOptions, progress: Progress) -> Located:
    """Runs the search for which `prepared` was asked."""
    asked.tolerances.check_outputs([value.name for value in ready.original.proto.graph.output])
    options = SearchOptions(
        asked.memory, asked.everything, asked.folder, asked.tolerances, ready.outputs, ready.rounding
    )
    return locate(ready, options, progress)


def _native(rewritten: Rewritten) -> Rewritten:
    """Plugin nodes as standard operators."""
    return replace(rewritten, model=expand(rewritten.model))


def _told(asked: LocateOptions) -> str:
    return told_source(asked.inputs) if asked.inputs is not None else "generated"


def _known(
    profiles: Sequence[Mapping[str, ShapeRange]], given: Mapping[str, ShapeRange]
) -> dict[str, ShapeRange]:
    """The ranges of an engine's first profile, and those that the user gives instead."""
    return {**(profiles[0] if profiles else {}), **given}


def _feeds(
    asked: LocateOptions, original: Model, rewritten: Rewritten, frozen: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Values of all inputs of the original: given or generated, frozen ones as they are frozen."""
    specs = [spec for spec in graph_inputs(original.proto) if spec.name not in frozen]
    if asked.feeds is not None:
        return {**asked.feeds, **frozen}
    if asked.inputs is not None:
        return load_inputs(asked.inputs, specs) | dict(frozen)
    profile = profile_for(specs, asked.shapes)
    made = generate_inputs(original, specs, {name: sizes.opt for name, sizes in profile.items()})
    values = value_profile(specs, shape_inputs(rewritten.model.proto), asked.values, {})
    exact = {spec.name: values_as_input(spec, values[spec.name]) for spec in specs if spec.name in values}
    return made.arrays | exact | dict(frozen)


def _rounding(original: Original, feeds: Arrays, precision: str, reduced: Rewritten) -> RoundedRuns:
    """What rounding changes of the model's outputs, as `trtsmith verify` has it."""
    baseline = Baseline(original, (InputSet("", feeds),))
    rounded = baseline.rounded(Arithmetic.of(precision, reduced.precision))
    return RoundedRuns(precision, baseline.plain[0], [] if rounded is None else [rounded[0]])


def _chosen(asked: LocateOptions, planned: Plan, precision: PrecisionRequest) -> str:
    """What runs the graph. UsageError where what was asked for cannot be."""
    emulates = asked.engine is None and precision.format is not None
    if asked.on == EMULATION and not emulates:
        what = "the emulation rounds values to a precision, and none is named"
        fix = f"add --precision fp16{', and leave the engine out' if asked.engine is not None else ''}"
        raise UsageError(what, "--on emulation", "--precision fp16 or bf16, without an engine", fix)
    if asked.on == EMULATION or (asked.on == "auto" and emulates and find_gpu() is None):
        return EMULATION
    if asked.on == KERNELS and (not planned.plugins or asked.native):
        what = "the graph has no plugin nodes, so no kernel of ours runs in it"
        raise UsageError(what, "--on kernels", "a model with plugin nodes", "--on tensorrt")
    if asked.on != "auto" or asked.engine is not None or not planned.plugins or asked.native:
        return KERNELS if asked.on == KERNELS else TENSORRT
    try:
        choose_flavour(asked.flavour, find_gpu())
    except UsageError:
        return KERNELS  # without TensorRT the kernels can be tried all the same
    return TENSORRT


def replay_with(known: Mapping[str, Path]) -> ReplayKernel:
    """Runs plugin nodes with the kernels of libraries. known: the library of each plugin, by its name."""

    def run_alone(model: Model, inputs: Arrays, expected: Arrays) -> Replay | None:
        if not known:
            return None
        case = case_of(model, inputs, expected, "the node that was found")
        return replay(case, known[case.plugin]) if case.plugin in known else None

    return run_alone
