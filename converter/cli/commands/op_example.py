"""trtsmith op example: writes the example model of a package from its definition."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from trtsmith.converter.base.errors import EXIT_OK, UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.base.output_file import check_report, replacing
from trtsmith.converter.base.own_files import EXAMPLE
from trtsmith.converter.cli.console import Console
from trtsmith.converter.operators.loading import load_package
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.flags import add_options
from trtsmith.options import Replacing

DESCRIPTION = (
    "Write DIR/example.onnx again after a change of the definition: a model of one node, with the fields, types and sizes "
    "of a case."
)

EPILOG = """examples:
  trtsmith op example voxel_max_pool
  trtsmith op example voxel_max_pool --case one_channel -o one_channel.onnx
"""

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="the folder of the package; its code is imported"
    )
    parser.add_argument("--operator", metavar="NAME", help="which of its operators; default: the first")
    parser.add_argument("--case", metavar="NAME", help="which case of the operator; default: the first")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="ONNX", help="the file to write; default: DIR/example.onnx"
    )
    add_options(parser, Replacing)
    parser.set_defaults(operators=False)  # of which its own are loaded alone


def run(options: argparse.Namespace, console: Console) -> int:
    from trtsmith.converter.scaffold.case_example import case_example

    operators = load_package(OperatorSource(str(options.folder), f"op example {options.folder}")).operators
    op = _chosen({op.name: op for op in operators}, options.operator, "--operator")
    case = _chosen({case.name: case for case in op.cases}, options.case, "--case")
    output = options.output or options.folder / "example.onnx"
    check_report(output, (), "-o", "the example", EXAMPLE, force=options.force)
    content = case_example(op, case)
    with replacing(output) as descriptor, open(descriptor, "wb", closefd=False) as stream:
        stream.write(content)
    console.result(str(output))
    return EXIT_OK


def _chosen(known: Mapping[str, T], name: str | None, flag: str) -> T:
    """The entry with this name, or the first without a name."""
    name = next(iter(known)) if name is None else name
    if name not in known:
        near = nearest(name, known)
        fix = f"did you mean {near!r}?" if near else "name one of them"
        raise UsageError(f"there is no {name!r}", f"{flag} {name}", f"one of {', '.join(known)}", fix)
    return known[name]
