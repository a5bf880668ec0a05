"""trtsmith verify: compares an engine's outputs on this machine's GPU with onnxruntime's."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith import report_files
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.locate.found import AGREE, Located
from trtsmith.converter.locate.prepare import LocateOptions, PreparedSearch, locate_prepared, prepared
from trtsmith.converter.locate.save_repro import check_folder, saved_folder
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import DISAGREE
from trtsmith.converter.verify.verify_bundle import VerifiedBundle, verify_bundle
from trtsmith.flags import add_options
from trtsmith.options import operator_words
from trtsmith.report_files import WrittenFiles
from trtsmith.verify_function import VERIFICATION, verification_of

DESCRIPTION = """Run an engine on this machine's GPU, and compare its outputs with those of the original model in
onnxruntime, with custom operators expanded. Without --inputs, it generates inputs that fit the model, for the smallest,
usual and largest sizes of the engine's profile."""

EPILOG = """examples:
  trtsmith verify model.onnx model.plan
  trtsmith verify model.onnx model.plan --shapes images=2x3x640x640 --rtol 1e-2 --atol scores:1e-3
  trtsmith verify model.onnx model.plan --load-inputs inputs.json --load-outputs outputs.json
"""


class _Terminal(TypedDict, total=False):
    """output"""

    per_node: Annotated[
        bool | None,
        Flag(
            "search for the faulty node, like `trtsmith locate`; default: if outputs disagree",
            common=True,
            action=argparse.BooleanOptionalAction,
        ),
    ]
    located: Annotated[StrPath | None, Flag("folder for that node (MODEL's name with .located)", "DIR")]
    report: Annotated[StrPath | None, Flag("write what was found to a file", "JSON", common=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="the .onnx file that the engine was built from"
    )
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine, with its manifest beside it")
    timeout = "time limit of the engine's run"
    add_options(parser, VERIFICATION, _Terminal, plugins="that the manifest does not name", timeout=timeout)


def run(options: argparse.Namespace, console: Console) -> int:
    folder = options.located or saved_folder(options.model)
    if options.per_node:
        check_folder(folder, force=options.force)
    files = WrittenFiles.of_command(options, console.progress, console.say)
    read = (options.model, options.engine, manifest_path(options.engine), options.inputs, options.expected)
    files.check((*read, *options.plugins, *options.load_inputs, options.load_outputs))
    with files.failed_verification(options.model):
        asked = verification_of(options.model, options.engine, options)

    with report_files.verifying(files, asked):
        compared = verify_bundle(asked, console.progress)
        ready, found = _located(options, compared, folder, console)
    for warning in compared.verdict.warnings:
        console.say(f"warning: {warning}")
    report_files.write_verification(files, asked, compared, ready, found)
    verdict = compared.verdict
    given = [] if options.inputs is None else ["--inputs", str(options.inputs)]
    flags = [*given, *operator_words(options)]
    console.result(render_verdict(verdict, options.model, options.engine, flags, located=found is not None))
    if found is not None:
        console.result(render(found))
    return verdict.exit_code


def _located(
    options: argparse.Namespace,
    compared: VerifiedBundle,
    folder: Path,
    console: Console,
) -> tuple[PreparedSearch | None, Located | None]:
    """The search for the faulty node, with the first inputs with wrong outputs; None, None without a search.

    Where it was not asked for, what keeps it from being found is a note: the verdict stands.
    """
    verdict = compared.verdict
    wanted = verdict.status == DISAGREE if options.per_node is None else options.per_node
    if not wanted:
        return None, None
    wrong = next((c.at for c in verdict.comparisons if not c.agrees), compared.sets[0].at)
    feeds = next(one.feeds for one in compared.sets if one.at == wrong)
    asked = LocateOptions(
        model=options.model,
        engine=options.engine,
        inputs=options.inputs,
        plugins=tuple(options.plugins),
        flavour=options.flavour,
        timeout_s=options.timeout,
        arithmetic=options.precision,
        feeds=feeds,
        frozen=compared.frozen,
        folder=folder,
        tolerances=parse_tolerances(options.rtol, options.atol),
        force=options.force,
    )
    console.progress("searching for the faulty node (--no-per-node skips this)")
    ready: PreparedSearch | None = None
    try:
        with prepared(asked) as ready:
            found = locate_prepared(ready, asked, console.progress)
    except TrtsmithError as error:
        if options.per_node:
            raise
        console.note(f"the search failed: {'; '.join(p.what for p in error.problems)}")
        return ready, None
    wanted_outputs = options.expected or options.load_outputs or ", ".join(options.reference)
    if found.status != AGREE or verdict.passed or not wanted_outputs:
        return ready, found
    told = f"onnxruntime gives the same as the engine; check {wanted_outputs}, which gives something else"
    return ready, replace(found, advice=(*found.advice, told))
