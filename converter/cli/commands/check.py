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
    model_of,
    shapes_of,
)
from trtsmith.converter.cli.console import Console, one_line, table
from trtsmith.converter.cli.precision_arguments import add_precision, precision_of
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.opening import open_model
from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.convert.reports import analysis_report
from trtsmith.converter.model.errors import EXIT_FAILED, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.rewrite.rewrite import Rewritten


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "check",
        parents=[common],
        help="how every node reaches TensorRT",
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
    parser.add_argument("--json", action="store_true", help="every node, as JSON on stdout")
    parser.add_argument("--report", type=Path, metavar="JSON", help="write the same JSON to a file")
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    return show(options, console, as_json=options.json)


def show(options: argparse.Namespace, console: Console, *, as_json: bool) -> int:
    """Exit code 0 when the model is convertible, 1 when it is not. options: of `check`, or of `convert`."""
    model, plugins, report = model_of(options), tuple(options.plugins), options.report
    check_report(report, (model, *plugins, options.inputs))
    analysis = analyse(open_model(model, console.progress).model, analysis_options(options))
    document = analysis_report(model, analysis)
    write_report(report, document)
    if as_json:
        console.json(document)
    else:
        console.result(_text(analysis.rewritten, analysis.plan, every_node=console.verbose))
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


def _text(rewritten: Rewritten, planned: Plan, *, every_node: bool) -> str:
    if every_node:
        rows = [(node.name, node.op_type, node.route.value, node.how) for node in planned.nodes]
        header = ("node", "operator", "route", "how")
    else:
        counts = Counter((node.op_type, node.route.value, node.how) for node in planned.nodes)
        rows = [(str(n), op_type, route, how) for (op_type, route, how), n in sorted(counts.items())]
        header = ("nodes", "operator", "route", "how")
    notes = [
        f"note: {one_line(record.node)}: {note}" for record in rewritten.rewrites for note in record.notes
    ]
    notes += [f"warning: {one_line(warning)}" for warning in rewritten.warnings()]
    notes += [f"warning: {one_line(warning)}" for warning in planned.warnings]
    left = [
        f"left as it is: {one_line(record.node)} ({one_line(record.op_type)}): {record.refusal.reason}"
        for record in rewritten.declined
        if not record.fatal
    ]
    left += precision_lines(rewritten, every_node=every_node)
    total = ", ".join(f"{number} {route}" for route, number in planned.routes().items())
    count = len(planned.problems)
    verdict = "convertible" if count == 0 else f"not convertible: {count} problem{'s' * (count > 1)}"
    return "\n".join([table([header, *rows]), *notes, *left, f"{total or 'no nodes'}; {verdict}"])


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
