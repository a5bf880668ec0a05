"""trtsmith plugin bench: times trtsmith's kernels against other implementations on this machine's GPU."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_OK, UsageError
from trtsmith.converter.base.options.kinds import commas, positive_seconds
from trtsmith.converter.base.output_file import check_report, write_report
from trtsmith.converter.base.process.package_folders import PACKAGE_ROOT
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.kernel_times import render
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.operators.compiled import library_of
from trtsmith.converter.plugin.bench.kernel_bench import BASELINES, TimingPlan, all_right, measure, select
from trtsmith.converter.plugin.machine import describe
from trtsmith.flags import add_options
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import OPS
from trtsmith.options import Operators, Replacing, operator_words

COUNT = 50


def add_parser(actions: Any, common: argparse.ArgumentParser) -> None:
    timed = [op.name for op in OPS if op.benchmarks]
    baselines = "; ".join(f"{name}: {text}" for name, text in BASELINES.items())
    text = "time trtsmith's kernels on a GPU against PyTorch, torchvision and the limits of the machine"
    parser = actions.add_parser(
        "bench",
        parents=[common],
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Needs PyTorch with CUDA. Exit code 3: a kernel's result is wrong.",
        epilog=f"examples:\n  trtsmith plugin bench {timed[0]} --against eager,compile --json bench.json",
    )
    parser.add_argument("names", nargs="+", metavar="OP", help="operators, as `trtsmith ops` names them")
    parser.add_argument(
        "--case", nargs="+", default=[], metavar="NAME", help="these sizes only; an unknown name lists them"
    )
    parser.add_argument(
        "--dtype",
        type=commas,
        default=(),
        metavar="TYPE,...",
        help=f"of {', '.join(TYPE_VARIABLES['T'])} (all)",
    )
    parser.add_argument(
        "--against", type=commas, metavar="NAME,...", help=f"baselines to time, or none (all). {baselines}"
    )
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help=f"timed runs of each ({COUNT})")
    parser.add_argument(
        "--warm",
        action="store_true",
        help="use the same tensors in every run, so that the GPU's cache stays warm, as other benchmarks do",
    )
    parser.add_argument(
        "--compile-timeout",
        type=positive_seconds,
        default=90.0,
        metavar="SECONDS",
        help="for each torch.compile (90)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to a file")
    parser.add_argument(
        "--commit", metavar="HASH", help="commit to record in the file, if the checkout has no history"
    )
    add_options(parser, Replacing)
    add_options(parser, Operators)
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace, console: Console) -> int:
    baselines = () if options.against == ("none",) else options.against
    plan = select(options.names, options.case, options.dtype, baselines, options.count, warm=options.warm)
    check_report(options.json, flag="--json", force=options.force)
    libraries = list(dict.fromkeys(library_of(op.name) or plugin_library() for op, _ in plan.ops))
    require_gpu()
    from trtsmith.converter.plugin.bench.kernel_torch import open_bench  # imports torch

    head = describe(PACKAGE_ROOT, libraries, options.commit) | {"command": command_of(options, plan)}
    with open_bench(libraries, options.compile_timeout) as bench:
        document = measure(
            plan,
            bench,
            head,
            lambda document: write_report(options.json, document, "--json"),
            console.progress,
        )
    console.result(render(document))
    return EXIT_OK if all_right(document) else EXIT_DISAGREE


def require_gpu() -> None:
    """Raises UsageError without PyTorch, or without a GPU for its CUDA."""
    if importlib.util.find_spec("torch") is None:
        what, fix = "PyTorch is not installed", "pip install torch, a build with CUDA"
    else:
        import torch

        if torch.cuda.is_available():
            return
        what = f"PyTorch {torch.__version__} finds no GPU"
        fix = (
            "run it on a machine with an NVIDIA GPU, and check `python3 -c 'import torch; torch.cuda.init()'`"
        )
    raise UsageError(what, "trtsmith plugin bench", "PyTorch with CUDA, and a GPU that it can use", fix)


def command_of(options: argparse.Namespace, plan: TimingPlan) -> str:
    """Returns the command line, without options that do not affect the measurement."""
    words = ["trtsmith", "plugin", "bench", *(op.name for op, _ in plan.ops)]
    if options.case:
        words += ["--case", *options.case]
    if options.dtype:
        words += ["--dtype", ",".join(options.dtype)]
    if options.against is not None:
        words += ["--against", ",".join(options.against)]
    words += ["--warm"] if options.warm else []
    return shlex.join([*words, "--count", str(options.count), *operator_words(options)])
