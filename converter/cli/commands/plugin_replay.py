"""trtsmith plugin replay: runs a saved plugin node through the plugin host, and compares with its saved outputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_OK
from trtsmith.converter.base.options.kinds import positive_seconds
from trtsmith.converter.cli.console import Console, one_line
from trtsmith.converter.engine import libraries
from trtsmith.converter.operators.compiled import library_of
from trtsmith.converter.plugin.calls import no_gpu
from trtsmith.flags import add_options
from trtsmith.options import Operators

_EPILOG = """examples:
  trtsmith plugin replay model.located
"""


def add_parser(actions: Any, common: argparse.ArgumentParser) -> None:
    text = "run only the kernel of a plugin node that `trtsmith locate` saved, and compare its outputs"
    parser = actions.add_parser(
        "replay",
        parents=[common],
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Needs a GPU, but no TensorRT. Exit code 3: the kernel is wrong.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="with node.onnx, inputs.npz and expected.npz"
    )
    parser.add_argument(
        "--library", type=Path, metavar="LIB", help="the library that has the plugin; default: the operator's"
    )
    parser.add_argument(
        "--timeout", type=positive_seconds, default=120.0, metavar="SECONDS", help="for the kernel (120)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")
    add_options(parser, Operators)
    parser.set_defaults(run=_replay)


def _replay(options: argparse.Namespace, console: Console) -> int:
    # Reads a model; the other plugin commands work where the libraries that conversion needs are missing.
    from trtsmith.converter.plugin.replay import read_case, replay

    case = read_case(options.folder)
    library = options.library or library_of(case.plugin) or libraries.plugin_library()
    found = replay(case, library, timeout_s=options.timeout)
    if found is None:
        raise no_gpu("run the kernel on")
    if options.json:
        console.json(found.to_json())
    else:
        console.result(f"{one_line(found.plugin)} on {found.gpu}: {found.verdict}\n  {one_line(found.text)}")
    return EXIT_OK if found.right else EXIT_DISAGREE
