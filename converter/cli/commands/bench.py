"""trtsmith bench ENGINE|MODEL"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from trtsmith.converter.bench.baselines import BASELINES
from trtsmith.converter.bench.bench_request import GRAPHS, TimingOptions, graphs_of
from trtsmith.converter.bench.engine_bench import bench
from trtsmith.converter.bench.points import check_points
from trtsmith.converter.bench.subject import BenchOptions
from trtsmith.converter.cli.arguments import (
    add_operators,
    add_running,
    operator_words,
    positive_int,
    positive_seconds,
)
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.page_arguments import add_page, check_page, write_page
from trtsmith.converter.cli.reports import native_times
from trtsmith.converter.cli.reports.engine_times import TERMS, render
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shapes import parse_shapes

_EPILOG = f"""{TERMS}
The JSON of --json is described in converter/bench/bench_record.py.

examples:
  trtsmith bench model.plan
  trtsmith bench model.plan --at min,opt,max --streams 2 --json times.json
  trtsmith bench model.onnx --shapes images=1x3x320x320:1x3x640x640:8x3x1280x1280 --against onnxruntime
  trtsmith bench model.onnx --plugin-vs-native
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    default = TimingOptions()
    parser = commands.add_parser(
        "bench",
        parents=[common],
        description="Time an engine on this machine's GPU, in trtexec's terms. Exit code 3: --against gave other outputs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "target", type=Path, metavar="ENGINE|MODEL", help="an engine; or an .onnx file, which is built first"
    )
    inputs = parser.add_argument_group("inputs")
    inputs.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help="of an engine: the shape to time at, as images=1x3x640x640; of a model: the profile, as for `convert`",
    )
    inputs.add_argument(
        "--at",
        type=_commas,
        default=("opt",),
        metavar="POINT,...",
        help="points of the profile to time at: min, opt, max (opt)",
    )
    inputs.add_argument(
        "--inputs", type=Path, metavar="NPZ", help="inputs by name; default: generated random numbers"
    )
    inputs.add_argument(
        "--freeze", action="append", default=[], metavar="NAME=VALUE", help="of a model: as for `convert`"
    )
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--warmup-ms",
        type=_not_negative,
        default=default.warmup_s * 1e3,
        metavar="MS",
        help="not counted (200)",
    )
    timing.add_argument(
        "--duration-s", type=_not_negative, default=default.duration_s, metavar="S", help="of each run (3)"
    )
    timing.add_argument(
        "--iterations",
        type=positive_int,
        default=default.iterations,
        metavar="N",
        help="at least so many inferences (10)",
    )
    timing.add_argument(
        "--streams",
        type=positive_int,
        default=default.streams,
        metavar="N",
        help="contexts at the same time (1)",
    )
    timing.add_argument(
        "--no-transfers", action="store_true", help="inputs and outputs stay on the GPU: nothing is copied"
    )
    timing.add_argument(
        "--cuda-graph",
        choices=tuple(GRAPHS),
        default="both",
        help="a run with, a run without, or both (both)",
    )
    timing.add_argument(
        "--layers",
        type=int,
        default=10,
        metavar="N",
        help="show the N layers that take longest, and the shares of operators and plugins; 0: no profile (10)",
    )
    compare = parser.add_argument_group("comparison, of a model")
    compare.add_argument(
        "--against",
        type=_commas,
        default=(),
        metavar="NAME,...",
        help="; ".join(f"{name}: {text}" for name, text in BASELINES.items()),
    )
    compare.add_argument(
        "--torch",
        default="",
        metavar="MODULE:FUNCTION",
        help="gets the inputs by name as tensors, returns a callable without arguments that returns the outputs",
    )
    compare.add_argument(
        "--plugin-vs-native",
        action="store_true",
        help="build the model with plugins and with their expansions into standard operators, and time both",
    )
    engine = parser.add_argument_group("the engine")
    add_running(engine, "of your own", "for the build, and for each engine's timing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to a file")
    add_page(parser)
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    asked = BenchOptions(
        target=options.target,
        shapes=parse_shapes(options.shapes),
        at=check_points(options.at),
        inputs=options.inputs,
        freeze=tuple(options.freeze),
        timing=TimingOptions(
            warmup_s=options.warmup_ms / 1e3,
            duration_s=options.duration_s,
            iterations=options.iterations,
            streams=options.streams,
            transfers=not options.no_transfers,
            graphs=graphs_of(options.cuda_graph),
        ),
        layers=max(options.layers, 0),
        against=tuple(options.against),
        torch=options.torch,
        plugin_vs_native=options.plugin_vs_native,
        plugins=tuple(options.plugins),
        flavour=options.flavour,
        timeout_s=options.timeout,
        verbose=options.verbose,
    )
    given = (asked.target, manifest_path(asked.target), asked.inputs, *asked.plugins)
    check_report(options.json, given, "--json")
    check_page(options, (*given, options.json))
    document = {"command": command_of(options)} | bench(asked, console.progress)
    write_report(options.json, document, "--json")
    write_page(options, console, lambda pages, words: pages.of_timing(words, asked, document))
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
    """The command again, without what changes nothing that is measured."""
    words = ["trtsmith", "bench", str(options.target)]
    for name in ("shapes", "freeze", "plugins"):
        words += [word for value in getattr(options, name) for word in (f"--{name}", str(value))]
    words += ["--at", ",".join(options.at)] if tuple(options.at) != ("opt",) else []
    words += ["--inputs", str(options.inputs)] if options.inputs else []
    words += ["--warmup-ms", f"{options.warmup_ms:g}", "--duration-s", f"{options.duration_s:g}"]
    words += ["--iterations", str(options.iterations), "--streams", str(options.streams)]
    words += ["--no-transfers"] if options.no_transfers else []
    words += ["--cuda-graph", options.cuda_graph]
    words += ["--against", ",".join(options.against)] if options.against else []
    words += ["--torch", options.torch] if options.torch else []
    words += ["--plugin-vs-native"] if options.plugin_vs_native else []
    words += ["--flavour", options.flavour] if options.flavour != "auto" else []
    return shlex.join([*words, *operator_words(options)])


def _commas(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _not_negative(text: str) -> float:
    """0 or a positive number that a clock can count to."""
    return 0.0 if text.strip() == "0" else positive_seconds(text)
