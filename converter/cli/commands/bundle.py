"""trtsmith bundle ENGINE --triton DIR"""

from __future__ import annotations

import argparse
from pathlib import Path

from trtsmith.bundle_function import BundleOptions, bundle
from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.base.options.declared import options_of
from trtsmith.converter.cli.console import Console
from trtsmith.flags import add_options

DESCRIPTION = (
    "Put an engine that `trtsmith convert` wrote into a model repository of Triton Inference Server."
)

EPILOG = """examples:
  trtsmith convert model.onnx -o model.plan --flavour tensorrt --embed-plugins --shapes x=1x3x64x64:8x3x64x64:16x3x64x64
  trtsmith bundle model.plan --triton /srv/models --name detector
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine; its manifest lies beside it")
    parser.add_argument(
        "--triton",
        type=Path,
        required=True,
        metavar="DIR",
        help="the model repository, created if missing",
    )
    add_options(parser, BundleOptions)


def run(options: argparse.Namespace, console: Console) -> int:
    written = bundle(
        options.engine,
        options.triton,
        **{one.name: getattr(options, one.name) for one in options_of(BundleOptions)},
    )
    for note in written.notes:
        console.say(f"note: {note}")
    console.result(f"model:  {written.folder}\nengine: {written.engine}\nstart:  {written.command}")
    return EXIT_OK
