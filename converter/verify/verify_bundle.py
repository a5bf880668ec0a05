"""Verifies an engine, by the manifest beside it, against the model from which it was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.origin import EngineOrigin, FrozenInput, origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.runtime.run_in_child import describe_engine
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.arrays import as_declared, load_arrays
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import calling
from trtsmith.converter.model.option_values import check_values, is_seconds
from trtsmith.converter.model.shapes import ShapeRange, graph_inputs
from trtsmith.converter.verify.engine import Progress, verify_engine
from trtsmith.converter.verify.given import load_expected, load_inputs
from trtsmith.converter.verify.interface import check_interface
from trtsmith.converter.verify.references import (
    NO_REFERENCES,
    References,
    check_known,
    check_one_expectation,
)
from trtsmith.converter.verify.rounding import PRECISIONS, engine_precision
from trtsmith.converter.verify.sets import InputSet, sets_of_profile
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class VerifyOptions:
    """What `trtsmith verify` is told. Paths are as the user gave them.

    inputs, expected: .npz files; outputs are expected for given inputs only. Without inputs, some are made up.
    shapes:    sizes of made-up inputs, instead of those of the engine's profile.
    precision: what the engine computes in, one of verify.rounding.PRECISIONS; "": what its manifest says.
    """

    model: Path
    engine: Path
    inputs: Path | None = None
    expected: Path | None = None
    shapes: Mapping[str, ShapeRange] = field(default_factory=dict)
    tolerances: Tolerances | None = None
    references: References = NO_REFERENCES
    precision: str = ""
    plugins: tuple[Path, ...] = ()
    flavour: str = "auto"
    timeout_s: float | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        check_values(
            ("--precision", self.precision, ("", *PRECISIONS)), ("--timeout", self.timeout_s, is_seconds)
        )
        if self.inputs is not None and self.shapes:
            name, sizes = next(iter(self.shapes.items()))
            what = "sizes are given for made-up inputs, and inputs too"
            where = f"--inputs {self.inputs}, --shapes {name}={sizes}"
            raise UsageError(Problem(what, where, "one of the two", "remove --shapes"))
        if self.expected is not None and self.inputs is None:
            what = "outputs are given, and no inputs that they belong to"
            where = f"--expected {self.expected}"
            raise UsageError(Problem(what, where, "the inputs too", "add --inputs FILE.npz"))
        check_one_expectation(self.expected, self.references)


@dataclass(frozen=True)
class VerifiedBundle:
    """A verdict, and the inputs that it rests on. frozen: those of them that are constants in the engine."""

    verdict: Verdict
    sets: tuple[InputSet, ...]
    frozen: dict[str, np.ndarray]


def verify_bundle(options: VerifyOptions, progress: Progress) -> VerifiedBundle:
    """Run the engine on this machine's GPU, and compare its outputs with onnxruntime's on the original model.

    UsageError: what is given does not fit model or engine, or the engine cannot be run here.
    """
    with calling(options.references.nodes):
        return _verified(options, progress)


def _verified(options: VerifyOptions, progress: Progress) -> VerifiedBundle:
    model = load_model(options.model)
    check_known(options.references, model)
    outputs = [value.name for value in model.proto.graph.output]
    if options.tolerances is not None:
        options.tolerances.check_outputs(outputs)
    expected = load_expected(options.expected, outputs) if options.expected is not None else None
    request = request_for(
        options.engine,
        options.plugins,
        options.flavour,
        verbose=options.verbose,
        timeout_s=options.timeout_s,
    )
    origin = origin_of(options.engine)
    built_from_it = origin.fingerprint in ("", fingerprint(model))
    try:
        verified = _compared(options, model, request, origin, expected, progress)
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
    expected: dict[str, np.ndarray] | None,
    progress: Progress,
) -> VerifiedBundle:
    frozen = _frozen_values(origin, options.inputs)
    specs = [spec for spec in graph_inputs(model.proto) if spec.name not in frozen]
    feeds = load_inputs(options.inputs, specs) if options.inputs is not None else None
    progress("loading the engine")
    info = describe_engine(request)
    check_interface(model, options.engine, info, request.io_types, frozen)
    sets, meanings = (
        ((InputSet("", feeds | frozen),), ())
        if feeds is not None
        else sets_of_profile(model, specs, info, request.profile, options.shapes, frozen)
    )
    what = str(options.inputs) if feeds is not None else "generated"
    words = options.references.words()
    whole = options.references.whole is not None
    did = origin.reduction
    sums = did is not None and did.float16_sums
    verdict = verify_engine(
        model,
        request,
        sets,
        what
        + (f", outputs expected: {options.expected}" if expected is not None else "")
        + (f", {words}" if words else ""),
        engine_inputs={tensor.name for tensor in info.inputs},
        precision=options.precision or engine_precision(origin.precision, float16_sums=sums),
        exact=frozenset(kept.node for kept in did.kept) if did is not None else frozenset(),
        tolerances=options.tolerances,
        expected=expected,
        wanted_by=(lambda feeds: options.references.outputs(model, feeds) or {}) if whole else None,
        meanings=meanings,
        progress=progress,
    )
    return VerifiedBundle(verdict, sets, frozen)


def _another_model(options: VerifyOptions) -> Problem:
    return Problem(
        f"the manifest says that the engine was built from another model than {options.model}",
        f"{options.model}, {manifest_path(options.engine)}",
        "the model whose fingerprint the manifest has",
        "give the model that the engine was built from, or convert this one again",
    )


def _frozen_values(origin: EngineOrigin, inputs: Path | None) -> dict[str, np.ndarray]:
    """What the manifest says was frozen, with the values of the manifest or of --inputs, which must be the same."""
    arrays = load_arrays(inputs, "--inputs") if inputs is not None and origin.frozen else {}
    values, problems = {}, []
    for entry in origin.frozen:
        given = arrays.get(entry.name)
        value = entry.array() if given is None else as_declared(given, entry.dtype)
        if value is None:
            problems.append(
                _unknown(entry, f"the manifest holds no more than the hash of input {entry.name!r}")
            )
        elif not entry.matches(value):
            problems.append(
                _unknown(entry, f"input {entry.name!r} has another value than the engine was frozen to")
            )
        else:
            values[entry.name] = value
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
