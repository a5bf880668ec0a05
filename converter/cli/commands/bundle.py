"""trtsmith bundle ENGINE --triton DIR"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import positive_int
from trtsmith.converter.cli.console import Console
from trtsmith.converter.engine.bundle.triton import write_model
from trtsmith.converter.engine.bundle.triton_config import TritonOptions
from trtsmith.converter.model.errors import EXIT_OK

_EPILOG = """examples:
  trtsmith convert model.onnx -o model.plan --flavour tensorrt --embed-plugins --shapes x=1x3x64x64:8x3x64x64:16x3x64x64
  trtsmith bundle model.plan --triton /srv/models --name detector
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "bundle",
        parents=[common],
        description="Put an engine that `trtsmith convert` wrote into a model repository of Triton Inference Server.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine; its manifest lies beside it")
    parser.add_argument(
        "--triton",
        type=Path,
        required=True,
        metavar="DIR",
        help="the model repository, made if it is not there",
    )
    parser.add_argument("--name", help="the model's name; default: the engine's file name")
    parser.add_argument("--model-version", type=positive_int, default=1, metavar="N", help="default 1")
    batching = parser.add_mutually_exclusive_group()
    batching.add_argument(
        "--batching",
        action="store_const",
        const=True,
        help="let the server join requests along the first dimension (default: where all have a dynamic one)",
    )
    batching.add_argument("--no-batching", dest="batching", action="store_const", const=False)
    parser.add_argument(
        "--instances",
        type=positive_int,
        default=1,
        metavar="N",
        help="execution contexts on each GPU (default 1)",
    )
    parser.add_argument(
        "--queue-delay-us",
        type=positive_int,
        default=100,
        metavar="US",
        help="how long a request may wait for others, in microseconds (default %(default)d)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    written = write_model(
        options.engine,
        TritonOptions(
            options.triton,
            options.name if options.name is not None else options.engine.stem,
            options.model_version,
            options.batching,
            options.instances,
            options.queue_delay_us,
        ),
    )
    for note in written.notes:
        console.say(f"note: {note}")
    console.result(f"model:  {written.folder}\nengine: {written.engine}\nstart:  {written.command}")
    return EXIT_OK
