"""trtsmith new: write the package of an operator of one's own."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.console import Console
from trtsmith.converter.model.errors import EXIT_OK
from trtsmith.converter.scaffold.draft_files import draft_files
from trtsmith.converter.scaffold.folder import check_free, write_folder
from trtsmith.converter.scaffold.names import check_names
from trtsmith.converter.scaffold.sample import sample_files


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "new",
        parents=[common],
        help="write the package of an operator of your own",
        description=(
            "Write a package with an operator of your own: definition, CUDA kernel, binding, cases, tests and an example "
            "model. It works as it is; change what it computes."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="of the operator and its plugin, such as VoxelMaxPool")
    parser.add_argument("--domain", help="ONNX domain in which models write the operator, such as mycompany")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the folder to write (the name in snake_case)"
    )
    sources = parser.add_mutually_exclusive_group()
    sources.add_argument(
        "--from-model",
        type=Path,
        metavar="M.onnx",
        help="ports, attributes, types and shapes of a node of this model that nobody knows; with --node",
    )
    parser.add_argument("--node", metavar="NODE", help="the node: its name, an output, or its op_type")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    draft = None
    if options.from_model is not None:
        from trtsmith.converter.scaffold.from_model import draft_of_node

        names = check_names(options.name, options.domain or "mycompany")
        folder: Path = options.output or Path(names.snake)
        check_free(folder)
        draft = draft_of_node(names, options.from_model, options.node)
        files = draft_files(draft)
    else:
        names = check_names(options.name, options.domain)
        folder = options.output or Path(names.snake)
        check_free(folder)
        files = sample_files(names)
    write_folder(folder, files)
    console.result(str(folder))
    place = shlex.quote(str(folder))
    console.progress(f"then: trtsmith build-plugins {place}")
    console.progress(f"      pytest {place}")
    console.progress(
        f"      trtsmith convert {shlex.quote(str(folder / 'example.onnx'))} -o example.plan --ops {place}"
    )
    return EXIT_OK
