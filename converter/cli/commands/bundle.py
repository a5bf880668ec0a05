"""trtsmith bundle: writes the files with which Triton, DeepStream or onnxruntime run an engine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith.argument_words import flags_kept
from trtsmith.bundle_function import BundleOptions, bundle
from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.base.options.declared import options_of
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.cli.console import Console
from trtsmith.flags import add_options

DESCRIPTION = """Write what another program needs to run an engine of `trtsmith convert`: a model in a repository of Triton
Inference Server, the configuration of DeepStream's nvinfer, or a model that wraps the engine for onnxruntime."""

EPILOG = """examples:
  trtsmith convert model.onnx -o model.plan --flavour tensorrt --embed-plugins --shapes x=1x3x64x64:8x3x64x64:16x3x64x64
  trtsmith bundle model.plan --for triton -o /srv/models --name detector
  trtsmith bundle model.plan --for deepstream
"""


class _Terminal(TypedDict, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag(
            "Triton's model repository, created if missing; or the file to write (default: config_infer_primary.txt or "
            "ENGINE_ctx.onnx beside the engine)",
            "OUT",
            "-o",
            "--output",
            "--triton",
            common=True,
        ),
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine; its manifest lies beside it")
    add_options(parser, _Terminal)
    add_options(parser, BundleOptions)


def run(options: argparse.Namespace, console: Console) -> int:
    asked = {one.name: getattr(options, one.name) for one in options_of(BundleOptions)}
    with flags_kept():
        written = bundle(options.engine, options.output, **asked)
    for note in written.notes:
        console.say(f"note: {note}")
    before = "\n" if "\n" in written.command else "  "
    files = "".join(f"\n  {file}  {file.stat().st_size:,} bytes" for file in written.files)
    console.result(
        f"written: {written.path}\nengine:  {written.engine}\nfiles:{files}\nstart:{before}{written.command}"
    )
    return EXIT_OK
