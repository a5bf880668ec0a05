"""trtsmith refit: gives an engine the weights of another model of the same structure."""

from __future__ import annotations

import argparse
from pathlib import Path

from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.cli.console import Console
from trtsmith.converter.convert.refitting import refit
from trtsmith.flags import add_options
from trtsmith.refit_function import REFITTED, refit_of

DESCRIPTION = """Give an engine the weights of another ONNX model of the same structure, without a build. The engine was
converted with --refit or --strip-plan; its manifest says how the model is rewritten. Needs a GPU."""

EPILOG = """examples:
  trtsmith convert model.onnx --refit
  trtsmith refit model.plan --onnx trained.onnx -o trained.plan
  trtsmith verify trained.onnx trained.plan
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine; its manifest lies beside it")
    parser.add_argument(
        "--onnx", type=Path, required=True, metavar="MODEL", help="the model with the new weights"
    )
    plugins = "that the engine needs and its manifest does not name"
    add_options(parser, REFITTED, plugins=plugins, timeout="time limit of the refit")


def run(options: argparse.Namespace, console: Console) -> int:
    done = refit(refit_of(options.engine, options.onnx, options), console.progress)
    for warning in done.bundle.warnings:
        console.say(f"warning: {warning}")
    console.result(f"engine:  {done.bundle.engine}")
    console.result(f"weights: {len(done.changed)} changed; TensorRT was given {done.weights}")
    return EXIT_OK
