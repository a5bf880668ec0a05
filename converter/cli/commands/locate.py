"""trtsmith locate: finds the node that makes an engine's results differ from onnxruntime's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith import report_files
from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_OK
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.locate.found import AGREE
from trtsmith.converter.locate.prepare import locate_prepared, prepared
from trtsmith.converter.locate.save_repro import saved_folder
from trtsmith.flags import add_options
from trtsmith.locate_function import SEARCHED, search_of
from trtsmith.report_files import WrittenFiles

DESCRIPTION = """Compare every intermediate value with onnxruntime's, name the faulty node, and save it with its tensors
as a model. First compares the rewritten graph with the original, which needs no GPU; then engines that have intermediate
values as outputs. Exit code 3: one or several faulty nodes were found, or the precision makes outputs disagree."""

EPILOG = """examples:
  trtsmith locate model.onnx
  trtsmith locate model.onnx model.plan --inputs inputs.npz -o faulty
  trtsmith locate model.onnx --precision fp16 --all --json nodes.json
"""


class _Terminal(TypedDict, total=False):
    """output"""

    json: Annotated[StrPath | None, Flag("write everything to a file", "FILE", common=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="the .onnx file")
    parser.add_argument(
        "engine",
        type=Path,
        nargs="?",
        metavar="ENGINE",
        help="an engine of the model; default: build one",
    )
    words = {"inputs": "for the comparison (default: generated)", "plugins": "of your own"}
    add_options(parser, SEARCHED, _Terminal, **words, timeout="for each build and each run")


def run(options: argparse.Namespace, console: Console) -> int:
    folder = options.output or saved_folder(options.model)
    asked = search_of(options.model, options.engine, folder, options)
    files = WrittenFiles.of_command(options, console.progress, console.say, "--json")
    report_files.check_search(files, asked)
    with prepared(asked) as ready:
        found = locate_prepared(ready, asked, console.progress)
    report_files.write_search(files, asked, ready, found)
    console.result(render(found))
    return EXIT_OK if found.status == AGREE else EXIT_DISAGREE
