"""trtsmith verify MODEL ENGINE: the engine's outputs, on this machine's GPU, against onnxruntime's."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.cli.arguments import add_running, add_tolerances
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.engine.bundle.bundle import manifest_path, toolkit_version
from trtsmith.converter.engine.bundle.origin import FrozenInput, Origin, origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.runtime.run_in_child import describe_engine
from trtsmith.converter.locate.found import AGREE, Located
from trtsmith.converter.locate.prepare import Asked, locate_asked
from trtsmith.converter.locate.save_repro import check_folder, saved_folder
from trtsmith.converter.model.arrays import as_declared, load_arrays
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_OK, TrtsmithError, UsageError
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shapes import graph_inputs, parse_shapes
from trtsmith.converter.verify.engine import verify_engine
from trtsmith.converter.verify.given import load_expected, load_inputs
from trtsmith.converter.verify.interface import check_interface
from trtsmith.converter.verify.rounding import PRECISIONS, engine_precision
from trtsmith.converter.verify.sets import InputSet, sets_of_profile
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.importers.problem import Problem

_DESCRIPTION = """Run an engine on this machine's GPU, and compare its outputs with onnxruntime's on the original model,
custom operators expanded. Without --inputs, inputs that suit what the model does with them are made up for the smallest,
usual and largest sizes of the engine's profile."""

_EPILOG = """examples:
  trtsmith verify model.onnx model.plan
  trtsmith verify model.onnx model.plan --shapes images=2x3x640x640 --rtol 1e-2 --atol scores:1e-3
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "verify",
        parents=[common],
        help="an engine's outputs against onnxruntime's",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="the .onnx file that the engine was built from"
    )
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine, with its manifest beside it")
    data = parser.add_argument_group("what is compared")
    data.add_argument("--inputs", type=Path, metavar="NPZ", help="arrays by input name; default: made up")
    data.add_argument(
        "--expected",
        type=Path,
        metavar="NPZ",
        help="outputs for --inputs; default: the original in onnxruntime",
    )
    data.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help="sizes of made-up inputs, as images=2x3x640x640 or MIN:OPT:MAX; once for each input",
    )
    judged = parser.add_argument_group("what is allowed")
    add_tolerances(judged)
    judged.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="what the engine computes in, by which the default tolerance is found; "
        "default: what its manifest says, and tf32 for fp32",
    )
    running = parser.add_argument_group("the engine")
    add_running(running, "that no manifest names", "give the run of the engine up after this time")
    parser.add_argument(
        "--per-node",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="look for the node that is wrong, as `trtsmith locate` does; default: where outputs disagree",
    )
    parser.add_argument(
        "--located", type=Path, metavar="DIR", help="where that node is saved (MODEL's name with .located)"
    )
    parser.add_argument("--report", type=Path, metavar="JSON", help="write what was found to a file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    given = (options.model, options.engine, manifest_path(options.engine), options.inputs, options.expected)
    check_report(options.report, (*given, *options.plugins))
    folder = options.located or saved_folder(options.model)
    if options.per_node:
        check_folder(folder)
    try:
        compared = _verify(options, console)
        verdict = compared.verdict
        found = _located(options, compared, folder, console)
    except TrtsmithError as error:
        write_report(options.report, {"verified": False, "problems": [p.to_json() for p in error.problems]})
        raise
    for warning in verdict.warnings:
        console.say(f"warning: {warning}")
    facts = {"trtsmith": toolkit_version(), "model": str(options.model), "engine": str(options.engine)}
    located = {"located": found.to_json() if found is not None else None}
    write_report(options.report, {"verified": True} | facts | {"verdict": verdict.to_json()} | located)
    console.result(render_verdict(verdict))
    if found is not None:
        console.result(render(found))
    return EXIT_OK if verdict.passed else EXIT_DISAGREE


@dataclass(frozen=True)
class _Compared:
    """A verdict, and the inputs that it rests on. frozen: those of them that are constants in the engine."""

    verdict: Verdict
    sets: tuple[InputSet, ...]
    frozen: dict[str, np.ndarray]


def _located(
    options: argparse.Namespace, compared: _Compared, folder: Path, console: Console
) -> Located | None:
    """The node that is wrong, for the first set of inputs whose outputs are; None if nobody wants to know.

    Where it was not asked for, what keeps it from being found is a note: the verdict stands.
    """
    verdict = compared.verdict
    wanted = verdict.status == "disagree" if options.per_node is None else options.per_node
    if not wanted:
        return None
    wrong = next((c.at for c in verdict.comparisons if not c.agrees), compared.sets[0].at)
    feeds = next(one.feeds for one in compared.sets if one.at == wrong)
    asked = Asked(
        model=options.model,
        engine=options.engine,
        inputs=options.inputs,
        plugins=tuple(options.plugins),
        flavour=options.flavour,
        timeout_s=options.timeout,
        arithmetic=options.precision or "",
        feeds=feeds,
        frozen=compared.frozen,
    )
    tolerances = parse_tolerances(options.rtol, options.atol)
    console.progress("looking for the node that is wrong (--no-per-node leaves it out)")
    try:
        found = locate_asked(asked, folder, tolerances, console.progress)
    except TrtsmithError as error:
        if options.per_node:
            raise
        console.progress(f"it could not be looked for: {'; '.join(p.what for p in error.problems)}")
        return None
    if found.status != AGREE or verdict.passed or options.expected is None:
        return found
    told = f"onnxruntime computes what the engine does; look at how {options.expected} was made"
    return replace(found, advice=(*found.advice, told))


def _verify(options: argparse.Namespace, console: Console) -> _Compared:
    tolerances = parse_tolerances(options.rtol, options.atol)
    shapes = parse_shapes(options.shapes)
    if options.inputs is not None and shapes:
        what = "sizes are given for made-up inputs, and inputs too"
        where = f"--inputs {options.inputs}, --shapes {options.shapes[0]}"
        raise UsageError(Problem(what, where, "one of the two", "remove --shapes"))
    if options.expected is not None and options.inputs is None:
        what = "outputs are given, and no inputs that they belong to"
        raise UsageError(
            Problem(what, f"--expected {options.expected}", "the inputs too", "add --inputs FILE.npz")
        )
    model = load_model(options.model)
    outputs = [value.name for value in model.proto.graph.output]
    tolerances.check_outputs(outputs)
    expected = load_expected(options.expected, outputs) if options.expected is not None else None
    request = request_for(
        options.engine,
        options.plugins,
        options.flavour,
        verbose=options.verbose,
        timeout_s=options.timeout,
    )
    origin = origin_of(options.engine)
    if origin.fingerprint and origin.fingerprint != fingerprint(model):
        console.say(
            f"warning: the manifest says that the engine was built from another model than {options.model}"
        )
    frozen = _frozen_values(origin, options.inputs)
    specs = [spec for spec in graph_inputs(model.proto) if spec.name not in frozen]
    feeds = load_inputs(options.inputs, specs) if options.inputs is not None else None
    console.progress("loading the engine")
    info = describe_engine(request)
    check_interface(model, options.engine, info, request.io_types, frozen)
    sets, meanings = (
        ((InputSet("", feeds | frozen),), ())
        if feeds is not None
        else sets_of_profile(model, specs, info, request.profile, shapes, frozen)
    )
    what = str(options.inputs) if feeds is not None else "generated"
    verdict = verify_engine(
        model,
        request,
        sets,
        what + (f", outputs expected: {options.expected}" if expected is not None else ""),
        engine_inputs={tensor.name for tensor in info.inputs},
        precision=options.precision or engine_precision(origin.precision),
        tolerances=tolerances,
        expected=expected,
        meanings=meanings,
        progress=console.progress,
    )
    return _Compared(verdict, sets, frozen)


def _frozen_values(origin: Origin, inputs: Path | None) -> dict[str, np.ndarray]:
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
