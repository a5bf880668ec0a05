"""trtsmith bench: times an engine, or a model whose engine it builds."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith import report_files
from trtsmith.bench_function import TIMED, timing_of
from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_OK
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.bench.engine_bench import bench
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports import native_times
from trtsmith.converter.cli.reports.engine_times import TERMS, render
from trtsmith.flags import add_options
from trtsmith.options import operator_words
from trtsmith.report_files import WrittenFiles

DESCRIPTION = (
    "Time an engine on this machine's GPU, in trtexec's terms. Exit code 3: --against gave other outputs."
)

EPILOG = f"""{TERMS}
The JSON of --json is described in converter/bench/bench_record.py.

examples:
  trtsmith bench model.plan
  trtsmith bench model.plan --at min,opt,max --streams 2 --json times.json
  trtsmith bench model.onnx --shapes images=1x3x320x320:1x3x640x640:8x3x1280x1280 --against onnxruntime
  trtsmith bench model.onnx --plugin-vs-native
"""


class _Terminal(TypedDict, total=False):
    """output"""

    json: Annotated[StrPath | None, Flag("write everything to a file", "FILE", common=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", type=Path, metavar="ENGINE|MODEL", help="an engine; or an .onnx file, which is built first"
    )
    timeout = "for the build, and for each engine's timing"
    add_options(parser, TIMED, _Terminal, plugins="of your own", timeout=timeout)


def run(options: argparse.Namespace, console: Console) -> int:
    asked = timing_of(options.target, options)
    files = WrittenFiles.of_command(options, console.progress, console.say, "--json")
    report_files.check_timing(files, asked)
    document = {"command": command_of(options)} | bench(asked, console.progress)
    report_files.write_timing(files, asked, document)
    for warning in document["warnings"]:
        console.say(f"warning: {warning}")
    console.result(render(document, asked.layers))
    if document["plugin_vs_native"]:
        console.result("\n" + native_times.render(document["plugin_vs_native"]))
    both = document["plugin_vs_native"] or {}
    judged = (*document["against"], *(both[name] for name in ("plugin", "native") if name in both))
    wrong = any(one.get("agrees") is False for one in judged)
    return EXIT_DISAGREE if wrong else EXIT_OK


def command_of(options: argparse.Namespace) -> str:
    """Returns the command line, without options that do not affect the measurement."""
    words = ["trtsmith", "bench", str(options.target)]
    for name in ("shapes", "freeze", "plugins"):
        words += [word for value in getattr(options, name) for word in (f"--{name}", str(value))]
    words += ["--at", ",".join(options.at)] if tuple(options.at) != ("opt",) else []
    words += ["--inputs", str(options.inputs)] if options.inputs else []
    words += ["--warmup-ms", f"{options.warmup_ms:g}", "--duration-s", f"{options.duration_s:g}"]
    words += ["--iterations", str(options.iterations), "--streams", str(options.streams)]
    words += [] if options.transfers else ["--no-transfers"]
    words += ["--cuda-graph", options.cuda_graph]
    words += ["--against", ",".join(options.against)] if options.against else []
    words += ["--torch", options.torch] if options.torch else []
    words += ["--plugin-vs-native"] if options.plugin_vs_native else []
    words += ["--flavour", options.flavour] if options.flavour != "auto" else []
    return shlex.join([*words, *operator_words(options)])
