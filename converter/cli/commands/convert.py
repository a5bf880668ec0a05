"""trtsmith convert MODEL -o ENGINE"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import (
    add_flavour,
    add_freezing,
    add_max_cost,
    add_model,
    add_operators,
    add_outputs_compared,
    add_plugins,
    add_prefer_stock,
    add_references,
    add_shapes,
    add_target,
    add_timeout,
    add_tolerances,
    model_of,
    positive_int,
    shapes_of,
)
from trtsmith.converter.cli.commands.check import precision_lines
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.default_output import DefaultEngine
from trtsmith.converter.cli.page_arguments import add_page, check_page, write_page, write_page_of_failure
from trtsmith.converter.cli.precision_arguments import add_precision, precision_of
from trtsmith.converter.cli.refusal_arguments import add_refusals, refusals_of
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.convert.mending.refusals import SUFFIX
from trtsmith.converter.convert.pipeline import Conversion, ConvertOptions, convert
from trtsmith.converter.convert.reports import conversion_report, failure_report
from trtsmith.converter.engine.build.build_request import OPTIMIZATION_LEVELS
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_OK, TrtsmithError
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.verify.conversion_check import MODES
from trtsmith.converter.verify.references import parse_references
from trtsmith.converter.verify.tolerances import parse_tolerances

_DESCRIPTION = """Convert an ONNX model or a PyTorch program into a TensorRT engine, with the plugin library that it needs
and a manifest."""

_EPILOG = """examples:
  trtsmith convert model.onnx
  trtsmith convert program.pt2 -o model.plan
  trtsmith convert model.onnx -o model.plan --shapes images=1x3x640x640:4x3x640x640:8x3x640x640 --target sm86,sm89
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "convert",
        parents=[common],
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="ENGINE",
        help="the engine to write; default: the model's name with .plan, in the current folder",
    )
    add_shapes(parser)
    add_freezing(
        parser,
        "to compare with (default: generated), and to which axes and other inputs that TensorRT wants constant are frozen",
    )
    add_precision(parser)
    build = parser.add_argument_group("the engine")
    add_target(build)
    add_flavour(build)
    add_prefer_stock(build)
    add_plugins(build, "of your own")
    build.add_argument(
        "--embed-plugins",
        action="store_true",
        help="put the plugin libraries into the engine: it then needs none beside it",
    )
    build.add_argument(
        "--workspace", type=positive_int, metavar="MIB", help="limit of TensorRT's workspace in MiB"
    )
    build.add_argument(
        "--timing-cache", type=Path, metavar="FILE", help="read and written, to build faster next time"
    )
    build.add_argument(
        "--optimization-level",
        type=int,
        choices=OPTIMIZATION_LEVELS,
        metavar="0-5",
        help="0 builds fastest, 5 searches longest",
    )
    add_timeout(build)
    add_refusals(parser, f"ENGINE{SUFFIX}")
    verify = parser.add_argument_group("the verdict")
    verify.add_argument(
        "--expected",
        type=Path,
        metavar="NPZ",
        help="outputs to compare with; default: the original in onnxruntime",
    )
    add_references(verify)
    add_tolerances(verify)
    add_outputs_compared(verify)
    add_max_cost(verify)
    which = verify.add_mutually_exclusive_group()
    which.add_argument(
        "--verify",
        default="auto",
        choices=MODES,
        help="what to compare with onnxruntime: the rewritten graph, the engine too, or (auto) the engine if this "
        "machine's GPU is one that it is built for",
    )
    which.add_argument("--no-verify", action="store_true", help="compare nothing")
    parser.add_argument("--dry-run", action="store_true", help="plan only: as `trtsmith check`")
    parser.add_argument("--report", type=Path, metavar="JSON", help="write what was done and found to a file")
    add_page(parser)
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.dry_run:
        from trtsmith.converter.cli.commands import check
        from trtsmith.converter.convert.trial_build import TrialBuild

        return check.show(options, console, TrialBuild(), as_json=False)
    model, default = model_of(options), None
    if options.output is None:
        default = DefaultEngine(model)
        options.output = default.path
    asked = ConvertOptions(
        model=model,
        output=options.output,
        shapes=shapes_of(options),
        values=parse_values(options.values),
        freeze=tuple(options.freeze),
        targets=options.target,
        flavour=options.flavour,
        plugins=tuple(options.plugins),
        prefer_stock=options.prefer_stock,
        inputs=options.inputs,
        expected=options.expected,
        tolerances=parse_tolerances(
            options.rtol, options.atol, options.not_compared, options.compare, options.max_cost
        ),
        references=parse_references(options.reference),
        verify=None if options.no_verify else options.verify,
        precision=precision_of(options),
        embed_plugins=options.embed_plugins,
        workspace_mib=options.workspace,
        timing_cache=options.timing_cache,
        optimization_level=options.optimization_level,
        timeout_s=options.timeout,
        verbose=options.verbose,
        refusals=refusals_of(options, options.output),
    )
    given = (asked.model, asked.output, manifest_path(options.output), asked.inputs, asked.expected)
    check_report(options.report, (*given, asked.timing_cache, *asked.plugins))
    check_page(options, (*given, asked.timing_cache, *asked.plugins))
    try:
        done = convert(asked, console.progress)
    except TrtsmithError as error:
        report = failure_report("convert", error)
        write_report(options.report, report)
        write_page_of_failure(
            options, console, lambda pages, words: pages.of_conversion(words, asked, report, None)
        )
        raise
    for warning in done.warnings:
        console.say(f"warning: {warning}")
    if default is not None and (replaced := default.replaced()):
        console.say(f"warning: {replaced}")
    report = conversion_report(asked, done)
    write_report(options.report, report)
    write_page(options, console, lambda pages, words: pages.of_conversion(words, asked, report, done))
    console.result(_summary(options.output, done))
    return EXIT_OK if done.passed else EXIT_DISAGREE


def _summary(engine: Path, done: Conversion) -> str:
    routes = ", ".join(f"{count} {route}" for route, count in done.plan.routes().items())
    targets = ", ".join(done.built.targets)
    size = f"{done.built.size / 2**20:.1f} MiB"
    lines = [
        f"engine:   {engine} ({size}, {done.built.flavour} {done.built.version}, {targets})",
        *(f"plugins:  {library}" for library in done.libraries),
        f"manifest: {manifest_path(engine)}",
        f"nodes:    {routes or 'none'}",
    ]
    if done.rewritten.precision is not None:
        lines += precision_lines(done.rewritten, every_node=False)
    lines.append(
        render_verdict(done.verdict) if done.verdict is not None else "verdict: not asked for (--no-verify)"
    )
    return "\n".join(lines)
