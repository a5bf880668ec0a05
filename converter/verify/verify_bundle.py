"""Verifies an engine and its manifest against the original model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import onnx

from trtsmith.converter.base.arrays import ArraySource, as_declared, named_source, told_source
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import check_values, is_seconds
from trtsmith.converter.base.options.kinds import ARRAYS, KINDS, SHAPES, Flag
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, graph_inputs
from trtsmith.converter.base.progress import Progress, progress_reports
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.origin import EngineOrigin, FrozenInput, origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_as_asked
from trtsmith.converter.engine.runtime.feeds import profile_problems
from trtsmith.converter.engine.runtime.run_in_child import describe_engine
from trtsmith.converter.engine.runtime.run_request import RunningOptions, RunRequest
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.model.node_functions import calling
from trtsmith.converter.rewrite.types import IoType
from trtsmith.converter.verify.allowance import QUANTIZED
from trtsmith.converter.verify.baseline import Arithmetic, Baseline, Original
from trtsmith.converter.verify.candidate_judge import Candidate, Ran, judge
from trtsmith.converter.verify.candidates import built_engine
from trtsmith.converter.verify.given import (
    GivenInputs,
    given_inputs,
    given_outputs,
    unused_arrays,
    without_inputs,
)
from trtsmith.converter.verify.polygraphy_files import check_target, save_inputs_json, save_outputs_json
from trtsmith.converter.verify.references import (
    ExpectationOptions,
    check_known,
    check_one_expectation,
)
from trtsmith.converter.verify.rounding import PRECISIONS, engine_precision
from trtsmith.converter.verify.sets import Generation, InputSet, InputSource, generation_of_engine
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.problem import Problem


@dataclass(frozen=True, kw_only=True)
class VerifyInputs:
    """The inputs to compare with. Without them, some are generated."""

    TITLE: ClassVar[str] = "inputs and outputs"

    inputs: Annotated[
        ArraySource | None,
        Flag("arrays by input name; default: generated", "NPZ", common=True, kind=ARRAYS),
    ] = None
    shapes: Annotated[
        Mapping[str, ShapeRange],
        Flag(
            "sizes of generated inputs, such as images=2x3x640x640 or MIN:OPT:MAX; once for each input",
            "NAME=SHAPE",
            common=True,
            kind=SHAPES,
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PolygraphyFiles:
    """Inputs and outputs as Polygraphy's JSON, of one iteration or several: files, or folders of them."""

    TITLE: ClassVar[str] = "Polygraphy's files"

    load_inputs: Annotated[
        tuple[Path, ...],
        Flag("inputs from `polygraphy run --save-inputs`, a file or a folder; may be repeated", "JSON"),
    ] = ()
    load_outputs: Annotated[
        Path | None,
        Flag("outputs of one runner for --load-inputs, from `polygraphy run --save-outputs`", "JSON"),
    ] = None
    save_inputs: Annotated[
        Path | None,
        Flag(
            "write the inputs for `polygraphy run --load-inputs`; a name without suffix makes a folder",
            "JSON",
        ),
    ] = None
    save_outputs: Annotated[
        Path | None,
        Flag(
            "write the engine's outputs for `polygraphy run --load-outputs`; a name without suffix makes a folder",
            "JSON",
        ),
    ] = None


@dataclass(frozen=True)
class VerifyOptions(VerifyInputs, ExpectationOptions, PolygraphyFiles, RunningOptions):
    """The options of `trtsmith verify`. Paths are as the user gave them.

    force:     whether files that are written replace others, whatever they are.
    """

    TITLE: ClassVar[str] = "verdict"

    model: ModelSource
    engine: Path
    tolerances: Tolerances | None = None
    precision: Annotated[
        str,
        Flag(
            "the engine's precision, which sets the default tolerance; default: the manifest's, with tf32 for fp32",
            kind=KINDS["EnginePrecision"],
        ),
    ] = ""
    verbose: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        check_values(
            ("--precision", self.precision, ("", *PRECISIONS)), ("--timeout", self.timeout_s, is_seconds)
        )
        inputs = [named_source("--inputs", self.inputs)] if self.inputs is not None else []
        inputs += [f"--load-inputs {' '.join(map(str, self.load_inputs))}"] if self.load_inputs else []
        outputs = [named_source("--expected", self.expected)] if self.expected is not None else []
        outputs += [f"--load-outputs {self.load_outputs}"] if self.load_outputs is not None else []
        for kind, given in (("inputs", inputs), ("outputs", outputs)):
            if len(given) > 1:
                what = f"{kind} are given twice"
                raise UsageError(what, ", ".join(given), "one of the two", "remove one")
        if inputs and self.shapes:
            name, sizes = next(iter(self.shapes.items()))
            what = "--shapes and --inputs are both given"
            where = f"{inputs[0]}, --shapes {name}={sizes}"
            raise UsageError(what, where, "one of the two", "remove --shapes")
        if outputs and not inputs:
            told = () if self.expected is not None else ("add --load-inputs FILE.json",)
            raise without_inputs(outputs[0], *told)
        check_one_expectation(outputs[0] if outputs else "", self.references)

    def files(self) -> tuple[object, ...]:
        """Returns the input files, which must not be overwritten."""
        given = (self.inputs, self.expected, *self.load_inputs, self.load_outputs)
        return (self.model, self.engine, manifest_path(self.engine), *given, *self.plugins)

    def check_targets(self) -> None:
        """Raises UsageError for files that cannot be written."""
        check_target(self.save_inputs, self.files(), "--save-inputs", "the inputs", force=self.force)
        others = (*self.files(), self.save_inputs)
        check_target(self.save_outputs, others, "--save-outputs", "the outputs", force=self.force)


@dataclass(frozen=True)
class VerifiedBundle:
    """A verdict, and the inputs that it rests on. frozen: those of them that are constants in the engine."""

    verdict: Verdict
    sets: tuple[InputSet, ...]
    frozen: dict[str, np.ndarray]


def verify_bundle(options: VerifyOptions, progress: Progress) -> VerifiedBundle:
    """Runs the engine on this machine's GPU, and compares its outputs with onnxruntime's on the original model.

    UsageError: what is given does not fit model or engine, or the engine cannot be run here.
    """
    with calling(options.references.nodes), progress_reports(progress) as telling:
        return _verified(options, telling)


def _verified(options: VerifyOptions, progress: Progress) -> VerifiedBundle:
    options.check_targets()
    model = load_model(options.model)
    check_known(options.references, model)
    if options.tolerances is not None:
        options.tolerances.check_outputs([value.name for value in model.proto.graph.output])
    given = given_inputs(options.inputs, options.load_inputs)
    expected = given_outputs(options.expected, options.load_outputs, model.proto.graph.output, given)
    request = request_as_asked(options.engine, options, verbose=options.verbose)
    origin = origin_of(options.engine)
    built_from_it = origin.fingerprint in ("", fingerprint(model))
    try:
        verified = _compared(options, model, request, origin, given, expected, progress)
    except UsageError as error:
        if built_from_it:
            raise
        raise UsageError([*error.problems, _another_model(options)]) from error
    if built_from_it:
        return verified
    warnings = (_another_model(options).what, *verified.verdict.warnings)
    return replace(verified, verdict=replace(verified.verdict, warnings=warnings))


def _compared(
    options: VerifyOptions,
    model: Model,
    request: RunRequest,
    origin: EngineOrigin,
    given: GivenInputs | None,
    expected: list[dict[str, np.ndarray]] | None,
    progress: Progress,
) -> VerifiedBundle:
    frozen = _frozen_values(origin, given)
    specs = [spec for spec in graph_inputs(model.proto) if spec.name not in frozen]
    fitting = given.fitting(specs) if given is not None else None
    progress("loading the engine")
    info = describe_engine(request)
    check_interface(model, options.engine, info, request.io_types, frozen)
    _check_profile(info, request.profile, fitting or (), given)
    generation = generation_of_engine(model, specs, info, request.profile, options.shapes, frozen)
    sets, source = _inputs(options, given, fitting, generation)
    if options.references.whole is not None:
        expected = [options.references.outputs(model, one.feeds) or {} for one in sets]
    did = origin.reduction
    sums = did is not None and did.float16_sums
    built_in = engine_precision(origin.precision, float16_sums=sums)
    decided = did is not None and not did.own and built_in not in QUANTIZED
    original = Original(model, options.references, progress, wide=decided)
    baseline = Baseline(original, sets, source, expected=expected, progress=progress)
    arithmetic = Arithmetic.of(options.precision or built_in, did)
    verdict, kept = _judged(options, request, baseline, arithmetic, {tensor.name for tensor in info.inputs})
    if options.save_inputs is not None:
        save_inputs_json(options.save_inputs, [one.feeds for one in sets], "--save-inputs")
    if options.save_outputs is not None:
        save_outputs_json(options.save_outputs, kept, "--save-outputs")
    return VerifiedBundle(verdict, sets, frozen)


def _inputs(
    options: VerifyOptions,
    given: GivenInputs | None,
    fitting: Sequence[Mapping[str, np.ndarray]] | None,
    generation: Generation,
) -> tuple[tuple[InputSet, ...], InputSource]:
    """The sets of inputs: those that were given, as `fitting` has them, or generated ones."""
    if given is None or fitting is None:
        sets, meanings = generation.sets()
        return sets, InputSource(_words(options, "generated"), generation, generation.fixed, meanings)
    unused = unused_arrays(given.arrays[0], (*fitting[0], *generation.frozen), given.where[0])
    source = InputSource(_words(options, given.words), None, generation.fixed, unused=unused)
    named = zip(given.names(), fitting, strict=True)
    return tuple(InputSet(at, {**one, **generation.frozen}) for at, one in named), source


def _words(options: VerifyOptions, inputs: str) -> str:
    """Where inputs and expected outputs come from, for the verdict."""
    told = options.load_outputs if options.expected is None else told_source(options.expected)
    words = inputs if told is None else f"{inputs}, outputs expected: {told}"
    functions = options.references.words()
    return f"{words}, {functions}" if functions else words


def _judged(
    options: VerifyOptions,
    request: RunRequest,
    baseline: Baseline,
    arithmetic: Arithmetic,
    inputs: Collection[str],
) -> tuple[Verdict, list[Mapping[str, np.ndarray]]]:
    """The verdict, and the engine's outputs. inputs: the engine's."""
    kept: list[Mapping[str, np.ndarray]] = []
    engine = _keeping(built_engine(request, inputs, arithmetic, baseline.progress), kept)
    verdict = judge(baseline, engine, options.tolerances)
    feeds = [one.feeds for one in baseline.sets]
    verdict = replace(verdict, warnings=(*baseline.source.warnings(feeds), *verdict.warnings))
    if options.save_outputs is not None and not kept:  # there was nothing to compare them with
        engine.run(feeds)
    return verdict, kept


def _check_profile(
    info: EngineInfo, profile: int, sets: Iterable[Mapping[str, np.ndarray]], given: GivenInputs | None
) -> None:
    """UsageError for inputs outside of the engine's profile, before anything is run on them."""
    problems = [
        replace(problem, where=f"{where}, {problem.where}")
        for feeds, where in zip(sets, given.where if given is not None else (), strict=True)
        for spec in info.inputs
        for problem in profile_problems(spec, feeds[spec.name], profile)
    ]
    if problems:
        raise UsageError(problems)


def _keeping(engine: Candidate, kept: list[Mapping[str, np.ndarray]]) -> Candidate:
    """The engine, whose outputs are kept as well."""

    def run(sets: Sequence[Mapping[str, np.ndarray]]) -> Ran:
        ran = engine.run(sets)
        kept.extend(ran.outputs)
        return ran

    return replace(engine, run=run)


def _another_model(options: VerifyOptions) -> Problem:
    return Problem(
        f"the manifest says that the engine was built from another model than {options.model}",
        f"{options.model}, {manifest_path(options.engine)}",
        "the model whose fingerprint the manifest has",
        "give the model that the engine was built from, or convert this one again",
    )


def _frozen_values(origin: EngineOrigin, given: GivenInputs | None) -> dict[str, np.ndarray]:
    """What the manifest says was frozen, with the values of the manifest or of each given iteration: all the same."""
    values, problems = {}, []
    for entry in origin.frozen:
        found = [
            as_declared(arrays[entry.name], entry.dtype)
            for arrays in (given.arrays if given is not None else ())
            if entry.name in arrays
        ]
        own = entry.array()
        found += [own] if own is not None and not found else []
        if not found:
            problems.append(_unknown(entry, f"the manifest has only the hash of input {entry.name!r}"))
        elif not all(map(entry.matches, found)):
            problems.append(_unknown(entry, f"input {entry.name!r} differs from the constant in the engine"))
        else:
            values[entry.name] = found[0]
    if problems:
        raise UsageError(problems)
    return values


def _unknown(entry: FrozenInput, what: str) -> Problem:
    return Problem(
        what,
        f"input {entry.name!r}, frozen in the engine",
        f"{entry.dtype}{list(entry.shape)} with the hash {entry.sha256}",
        f"put the array {entry.name!r} with which the model was converted into --inputs FILE.npz",
    )


_FIX = (
    "give the model that the engine was built from, or convert this one again; "
    "keep the manifest beside the engine, which says what was frozen or cast"
)


def check_interface(
    model: Model, engine: Path, info: EngineInfo, io_types: Iterable[IoType], frozen: Collection[str]
) -> None:
    """Raises UsageError with all differences between the two, except those that the manifest says were frozen or cast."""
    after = {io.name: io.after for io in io_types}
    specs = [spec for spec in graph_inputs(model.proto) if spec.name not in frozen]
    outputs = [_output(value) for value in model.proto.graph.output]
    unread = {spec.name for spec in specs} - _read(model)
    found = (
        *_differences("input", specs, info.inputs, after, unread),
        *_differences("output", outputs, info.outputs, after, frozenset()),
    )
    problems = [Problem(what, str(engine), expected, _FIX) for what, expected in found]
    if problems:
        raise UsageError(problems)


def _output(value: onnx.ValueInfoProto) -> InputSpec:
    """Sizes of outputs are not compared: they follow from the inputs."""
    tensor = value.type.tensor_type
    return InputSpec(value.name, dtype_name(tensor.elem_type) if tensor.elem_type else "", (), ())


def _read(model: Model) -> set[str]:
    """Values that some node reads, or that are outputs."""
    graphs = list(all_graphs(model.proto.graph))
    read = {name for graph in graphs for node in graph.node for name in node.input}
    return read | {value.name for graph in graphs for value in graph.output}


def _differences(
    kind: str,
    model: Iterable[InputSpec],
    engine: Iterable[TensorSpec],
    after: Mapping[str, str],
    optional: Collection[str],
) -> Iterator[tuple[str, str]]:
    """(what is wrong, what was expected)"""
    wanted, have = {spec.name: spec for spec in model}, {spec.name: spec for spec in engine}
    names = f"the model's {kind}s: " + (", ".join(map(repr, wanted)) or "none")
    for name, spec in wanted.items():
        if name in have:
            yield from _other_tensor(kind, spec, have[name], after.get(name, spec.dtype))
        elif name not in optional:
            yield f"the engine has no {kind} {name!r}", names
    for name in have:
        if name not in wanted:
            yield f"the engine has an {kind} {name!r}, which the model lacks", names


def _other_tensor(kind: str, spec: InputSpec, tensor: TensorSpec, dtype: str) -> Iterator[tuple[str, str]]:
    """How the engine's tensor is not the model's. dtype: the type that the engine should have."""
    if dtype and tensor.dtype != dtype:
        yield f"{kind} {spec.name!r} is {tensor.dtype} in the engine", dtype
    elif kind == "input" and not _fits(spec.shape, tensor.shape):
        dims = ", ".join("?" if size is None else str(size) for size in spec.shape)
        yield f"input {spec.name!r} is {tensor} in the engine", f"{dtype}[{dims}]"


def _fits(model: tuple[int | None, ...], engine: tuple[int, ...]) -> bool:
    """A dynamic size of the model may be fixed in the engine; a fixed one may not be dynamic or another."""
    if len(model) != len(engine):
        return False
    return all(size is None or size == there for size, there in zip(model, engine, strict=True))
