"""trtsmith op test: tests the plugin library of a package with the cases of its operators."""

from __future__ import annotations

import argparse
from pathlib import Path

from trtsmith.converter.base.errors import EXIT_OK, UsageError
from trtsmith.converter.cli.commands import plugin
from trtsmith.converter.cli.console import Console
from trtsmith.converter.compile.package_folder import find_package
from trtsmith.flags import add_options
from trtsmith.options import Replacing

DESCRIPTION = (
    "Test the plugins that `trtsmith op build` compiled, as `trtsmith plugin test` does, with the cases of their "
    "definitions; with a GPU, their kernels against the references, too."
)

EPILOG = """examples:
  trtsmith op test voxel_max_pool
  trtsmith op test voxel_max_pool --no-gpu --report results.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ops", nargs=1, metavar="DIR", help="the folder with plugins.cmake; its code is run")
    parser.add_argument("--v2", action="store_true", help="test the IPluginV2DynamicExt library")
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")
    add_options(parser, plugin.Tests)
    add_options(parser, Replacing)
    parser.set_defaults(plugins_from_packages=False, model=None, shapes=(), reference=(), init=None)


def run(options: argparse.Namespace, console: Console) -> int:
    (folder,) = options.ops
    package = find_package(Path(folder))
    library = package.library(v2=options.v2)
    if not package.operators():
        console.result(
            f"{package.list_file}: no operator has a kernel, so there is no plugin to test.\n"
            f"The tests of the definitions: pytest {folder}"
        )
        return EXIT_OK
    if not library.is_file():
        made = f"trtsmith op build {folder}{' --v2' * options.v2}"
        raise UsageError("the package is not compiled", str(library), "its plugin library", made)
    options.library = library
    return plugin.test(options, console)
