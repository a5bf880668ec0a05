"""trtsmith op build: compiles the operators of a package into its plugin library."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.cli.console import Console
from trtsmith.converter.compile.logged import SetupError
from trtsmith.converter.compile.manifest_check import check_manifest
from trtsmith.converter.compile.package_build import BuildOrder, build_package
from trtsmith.converter.compile.package_folder import find_package
from trtsmith.converter.operators.loading import load_package
from trtsmith.converter.operators.sources import OperatorSource

DESCRIPTION = (
    "Compile the kernels and bindings of a package from `trtsmith op new` into DIR/PACKAGE/lib, where --ops finds the "
    "library. Needs nvcc and TensorRT's headers, but no GPU. Compiles only changed files."
)

EPILOG = """examples:
  trtsmith op build voxel_max_pool
  trtsmith op build voxel_max_pool --v2 --architectures release
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder with plugins.cmake")
    parser.add_argument(
        "--v2", action="store_true", help="also build the IPluginV2DynamicExt library, for TensorRT 8.6 to 10"
    )
    parser.add_argument(
        "--architectures",
        default="",
        metavar="LIST",
        help="GPUs to compile for: 86,90 (the default, with PTX for later GPUs), or release for all supported ones",
    )
    parser.add_argument("--clean", action="store_true", help="compile everything again")
    parser.set_defaults(operators=False)  # of which its own are loaded alone


def run(options: argparse.Namespace, console: Console) -> int:
    package = find_package(options.folder)
    order = BuildOrder(package, options.v2, options.architectures, options.clean)

    def accept(library: Path) -> None:
        source = OperatorSource(str(package.module), f"op build {options.folder}")
        check_manifest(library, load_package(source).operators)

    try:
        built = build_package(order, dict(os.environ), accept, console.progress)
    except SetupError as error:
        if error.tail:
            console.block(error.tail)
        raise
    if not built.libraries:
        console.result(
            f"{options.folder / package.list_file.name}: no operator has a kernel, so there is nothing to compile.\n"
            "TensorRT gets the expansion of each, made of standard operators, until a trtsmith_operator(...) line is there."
        )
        return EXIT_OK
    for library in built.libraries:
        console.result(str(options.folder / library.relative_to(package.root)))
    console.note(f"{', '.join(package.operators())}: {built.seconds:.1f} s")
    return EXIT_OK
