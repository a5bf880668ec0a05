"""trtsmith locate MODEL [ENGINE]: the node that makes an engine's numbers differ from onnxruntime's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import (
    add_freezing,
    add_operators,
    add_running,
    add_tolerances,
    positive_int,
)
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.page_arguments import add_page, check_page, write_page
from trtsmith.converter.cli.precision_arguments import add_precision, precision_of
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.locate.found import AGREE
from trtsmith.converter.locate.prepare import KERNELS, TENSORRT, Asked, PreparedSearch, locate_asked
from trtsmith.converter.locate.save_repro import saved_folder
from trtsmith.converter.locate.searched_graph import MEMORY
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import parse_shapes
from trtsmith.converter.verify.tolerances import parse_tolerances

_DESCRIPTION = """Compare every intermediate value with onnxruntime's, name the node that is wrong, and save it with its
tensors as a model of its own. First the rewritten graph against the original, which needs no GPU; then engines that are
built with values between nodes as outputs. Exit code 3: a node, or several together, were found, or outputs disagree by
what the precision rounds."""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "locate",
        parents=[common],
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="the .onnx file")
    parser.add_argument(
        "engine",
        type=Path,
        nargs="?",
        metavar="ENGINE",
        help="an engine of it; default: one that is built now",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="where the node is saved (MODEL's name with .located)",
    )
    parser.add_argument(
        "--on",
        default="auto",
        choices=("auto", TENSORRT, KERNELS),
        help="kernels: plugin nodes through the plugin host and the others in onnxruntime; needs no TensorRT. "
        "auto: tensorrt where it is there",
    )
    parser.add_argument(
        "--native", action="store_true", help="build plugin nodes as standard operators, without the plugins"
    )
    parser.add_argument("--all", action="store_true", help="go on after the first node that is wrong")
    parser.add_argument(
        "--memory",
        type=positive_int,
        default=MEMORY >> 20,
        metavar="MIB",
        help=f"of values between nodes at a time ({MEMORY >> 20}): twice so much on the host, once on the device",
    )
    parser.add_argument(
        "--shapes", action="append", default=[], metavar="NAME=MIN:OPT:MAX", help="as for convert"
    )
    parser.add_argument(
        "--values", action="append", default=[], metavar="NAME=MIN:OPT:MAX", help="as for convert"
    )
    add_freezing(parser, "to compare with (default: generated)")
    add_precision(parser)
    add_tolerances(parser)
    add_running(parser, "of your own", "for each build and each run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to a file")
    add_page(parser)
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    folder = options.output or saved_folder(options.model)
    manifest = manifest_path(options.engine) if options.engine is not None else None
    given = (options.model, options.engine, manifest, options.inputs, *options.plugins)
    check_report(options.json, given, "--json")
    check_page(options, (*given, options.json))
    asked = Asked(
        model=options.model,
        engine=options.engine,
        inputs=options.inputs,
        freeze=tuple(options.freeze),
        shapes=parse_shapes(options.shapes),
        values=parse_values(options.values),
        plugins=tuple(options.plugins),
        flavour=options.flavour,
        on=options.on,
        native=options.native,
        timeout_s=options.timeout,
        precision=precision_of(options),
    )
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
