"""trtsmith check MODEL: how every node reaches TensorRT, and everything that stands in the way."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import (
    add_flavour,
    add_freezing,
    add_model,
    add_operators,
    add_plugins,
    add_prefer_stock,
    add_shapes,
    add_target,
    add_timeout,
    model_of,
    shapes_of,
)
from trtsmith.converter.cli.console import Console, one_line, table
from trtsmith.converter.cli.precision_arguments import add_precision, precision_of
from trtsmith.converter.cli.refusal_arguments import add_refusals, refusals_of
from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.reports import analysis_report
from trtsmith.converter.convert.trial_build import TrialBuild, check_model
from trtsmith.converter.engine.build.build_request import OPTIMIZATION_LEVELS
from trtsmith.converter.model.errors import EXIT_FAILED, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.signs_of_life import signs_of_life
from trtsmith.converter.rewrite.rewrite import Rewritten


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "check",
        parents=[common],
        description="Show how every node of a model reaches TensorRT, and all problems at once. Needs no GPU.",
        allow_abbrev=False,
    )
    add_model(parser)
    add_plugins(parser, "of your own")
    add_flavour(parser)
    add_prefer_stock(parser)
    add_shapes(parser)
    add_freezing(parser, "to which axes and other inputs that TensorRT wants constant are frozen")
    add_precision(parser)
    build = parser.add_argument_group("a build")
    build.add_argument(
        "--build",
        action="store_true",
        help="also build the engine, which takes longer and writes none: only that tells whether TensorRT takes the graph",
    )
    add_target(build)
    build.add_argument(
        "--optimization-level",
        type=int,
        choices=OPTIMIZATION_LEVELS,
        metavar="0-5",
        help="0 builds fastest, 5 searches longest",
    )
    add_timeout(build)
    add_refusals(parser, "they are not saved")
    parser.add_argument("--json", action="store_true", help="every node, as JSON on stdout")
    parser.add_argument("--report", type=Path, metavar="JSON", help="write the same JSON to a file")
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    trial = TrialBuild(
        asked=options.build,
        flavour=options.flavour,
        targets=options.target,
        optimization_level=options.optimization_level,
        timeout_s=options.timeout,
        refusals=refusals_of(options, None),
        verbose=options.verbose,
    )
    return show(options, console, trial, as_json=options.json)


def show(options: argparse.Namespace, console: Console, trial: TrialBuild, *, as_json: bool) -> int:
    """Exit code 0 when the model is convertible as far as was looked, else 1. options: of `check`, or of `convert`."""
    model, plugins, report = model_of(options), tuple(options.plugins), options.report
    check_report(report, (model, *plugins, options.inputs, trial.refusals.file))
    with signs_of_life(console.progress) as progress:
        analysis = check_model(model, analysis_options(options), trial, progress)
    document = analysis_report(model, analysis) if as_json or report is not None else {}
    write_report(report, document)
    if as_json:
        console.json(document)
    else:
        console.result(_text(analysis, every_node=console.verbose))
        console.problems(analysis.problems)
    return EXIT_OK if analysis.convertible else EXIT_FAILED


def analysis_options(options: argparse.Namespace) -> AnalysisOptions:
    """Reads the flags that are common to all commands that read a model."""
    return AnalysisOptions(
        target=target_of(options.flavour, prefer_stock=options.prefer_stock),
        freeze=tuple(options.freeze),
        inputs=options.inputs,
        plugins=tuple(options.plugins),
        precision=precision_of(options),
        profiles=(shapes_of(options),),
        values=(parse_values(options.values),),
    )


def _text(analysis: Analysis, *, every_node: bool) -> str:
    rewritten, planned = analysis.rewritten, analysis.plan
    if every_node:
        rows = [(node.name, node.op_type, node.route.value, node.how) for node in planned.nodes]
        header = ("node", "operator", "route", "how")
    else:
        counts = Counter((node.op_type, node.route.value, node.how) for node in planned.nodes)
        rows = [(str(n), op_type, route, how) for (op_type, route, how), n in sorted(counts.items())]
        header = ("nodes", "operator", "route", "how")
    notes = [f"note: {record.node}: {note}" for record in rewritten.rewrites for note in record.notes]
    notes += [f"warning: {warning}" for warning in (*rewritten.warnings(), *planned.warnings)]
    left = [
        f"left as it is: {record.node} ({record.op_type}): {record.refusal.reason}"
        for record in rewritten.declined
        if not record.fatal
    ]
    left += precision_lines(rewritten, every_node=every_node)
    total = ", ".join(f"{number} {route}" for route, number in planned.routes().items())
    notes += [f"warning: {one.warning()}" for one in analysis.mended]
    count = len(planned.problems)
    verdict = _outcome(analysis) if count == 0 else f"not convertible: {count} problem{'s' * (count > 1)}"
    return "\n".join(
        [table([header, *rows]), *map(one_line, (*notes, *left)), f"{total or 'no nodes'}; {verdict}"]
    )


def _outcome(analysis: Analysis) -> str:
    """Of a model all of whose nodes have a route."""
    built = analysis.built
    if analysis.refusal:
        return "not convertible: every node has a route, but TensorRT does not build the graph"
    if built is None:
        return "every node has a route; building was not tried (--build)"
    where = ", ".join(built.targets)
    return f"convertible: {built.flavour} {built.version} builds it for {where}, in {built.seconds:.1f} s"


def precision_lines(rewritten: Rewritten, *, every_node: bool) -> list[str]:
    """The summary of the precision pass, and with every_node what stays in float32; nothing if none was asked for."""
    report = rewritten.precision
    if report is None:
        return []
    kept = report.kept if every_node else ()
    sums = report.sums.line() if report.sums is not None else ""
    return [
        *(f"in float32: {one_line(k.node)} ({one_line(k.op_type)}): {one_line(k.reason)}" for k in kept),
        f"precision: {one_line(report.summary())}",
        *([f"sums: {one_line(sums)}"] if sums else []),
    ]
