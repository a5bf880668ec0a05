"""trtsmith locate MODEL [ENGINE]: the node that makes an engine's numbers differ from onnxruntime's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.page_arguments import check_page, write_page
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.locate.found import AGREE
from trtsmith.converter.locate.prepare import PreparedSearch, locate_asked
from trtsmith.converter.locate.save_repro import saved_folder
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.flags import add_options
from trtsmith.locate_function import SearchedOptions, search_of
from trtsmith.options import Flag, StrPath

_DESCRIPTION = """Compare every intermediate value with onnxruntime's, name the node that is wrong, and save it with its
tensors as a model of its own. First the rewritten graph against the original, which needs no GPU; then engines that are
built with values between nodes as outputs. Exit code 3: a node, or several together, were found, or outputs disagree by
what the precision rounds."""


class _Terminal(TypedDict, total=False):
    json: Annotated[StrPath | None, Flag("write everything to a file", "FILE")]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("locate", parents=[common], description=_DESCRIPTION)
    parser.add_argument("model", type=Path, metavar="MODEL", help="the .onnx file")
    parser.add_argument(
        "engine",
        type=Path,
        nargs="?",
        metavar="ENGINE",
        help="an engine of it; default: one that is built now",
    )
    words = {"inputs": "to compare with (default: generated)", "plugins": "of your own"}
    add_options(parser, SearchedOptions, _Terminal, **words, timeout="for each build and each run")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    folder = options.output or saved_folder(options.model)
    manifest = manifest_path(options.engine) if options.engine is not None else None
    given = (options.model, options.engine, manifest, options.inputs, *options.plugins)
    check_report(options.json, given, "--json")
    check_page(options, (*given, options.json))
    asked = search_of(options.model, options.engine, options)
    tolerances = parse_tolerances(options.rtol, options.atol)
    memory = options.memory << 20
    searched: list[PreparedSearch] = []
    found = locate_asked(
        asked,
        folder,
        tolerances,
        console.progress,
        memory=memory,
        everything=options.all,
        ready_for=searched.append,
    )
    document = found.to_json()
    write_report(options.json, document, "--json")
    write_page(
        options,
        console,
        lambda pages, words: pages.of_search(words, options.model, options.engine, searched[0], document),
    )
    console.result(render(found))
    return EXIT_OK if found.status == AGREE else EXIT_DISAGREE
