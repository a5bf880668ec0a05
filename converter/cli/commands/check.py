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
)
from trtsmith.converter.cli.console import Console, one_line, table
from trtsmith.converter.cli.precision_arguments import add_precision, precision_of
from trtsmith.converter.cli.refusal_arguments import add_refusals, refusals_of
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.opening import open_model
from trtsmith.converter.convert.pipeline import Conversion, ConvertOptions, convert
from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.convert.reports import analysis_report
from trtsmith.converter.engine.build.build_request import OPTIMIZATION_LEVELS
from trtsmith.converter.model.errors import EXIT_FAILED, EXIT_OK, ConversionError, UsageError
from trtsmith.converter.model.output_file import check_report, write_report
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import parse_shapes
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.importers.problem import Problem


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
    add_shapes(parser)
    add_refusals(parser, "they are not saved")
    parser.add_argument("--json", action="store_true", help="every node, as JSON on stdout")
    parser.add_argument("--report", type=Path, metavar="JSON", help="write the same JSON to a file")
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    _check_build_flags(options)
    return show(options, console, as_json=options.json, build=options.build)


def show(options: argparse.Namespace, console: Console, *, as_json: bool, build: bool = False) -> int:
    """Exit code 0 when the model is convertible as far as was looked, 1 when it is not. options: of `check`, or `convert`.

    build: whether an engine is built, and thrown away; only `check` has the flags for it.
    """
    model, plugins, report = model_of(options), tuple(options.plugins), options.report
    check_report(report, (model, *plugins, options.inputs))
    opened = open_model(model, console.progress)
    analysis = analyse(opened.model, analysis_options(options))
    tried: Conversion | ConversionError | None = None
    if build and analysis.convertible:
        try:
            tried = convert(_build_options(options, console), console.progress)
        except ConversionError as error:
            tried = error
    document = analysis_report(model, analysis, tried)
    write_report(report, document)
    failed = isinstance(tried, ConversionError)
    if as_json:
        console.json(document)
    else:
        console.result(_text(analysis.rewritten, analysis.plan, tried, every_node=console.verbose))
        console.problems(tried.problems if isinstance(tried, ConversionError) else analysis.problems)
    return EXIT_OK if analysis.convertible and not failed else EXIT_FAILED


def _check_build_flags(options: argparse.Namespace) -> None:
    """UsageError for flags that are for a build where none is asked for."""
    given = {
        "--target": options.target,
        "--optimization-level": options.optimization_level is not None,
        "--timeout": options.timeout,
        "--refused": options.refused,
        "--mend-with": options.mend_with,
    }
    wrong = [flag for flag, value in given.items() if value]
    if wrong and not options.build:
        what = f"{wrong[0]} is for a build, and none was asked for"
        raise UsageError(Problem(what, wrong[0], "check with --build", "add --build, or remove the flag"))


def _build_options(options: argparse.Namespace, console: Console) -> ConvertOptions:
    return ConvertOptions(
        model=model_of(options),
        output=None,
        shapes=parse_shapes(options.shapes, options.minShapes, options.optShapes, options.maxShapes),
        values=parse_values(options.values),
        freeze=tuple(options.freeze),
        targets=options.target,
        flavour=options.flavour,
        plugins=tuple(options.plugins),
        prefer_stock=options.prefer_stock,
        inputs=options.inputs,
        verify=None,
        precision=precision_of(options),
        optimization_level=options.optimization_level,
        timeout_s=options.timeout,
        verbose=options.verbose,
        refusals=refusals_of(options, None),
        keep=False,
    )


def analysis_options(options: argparse.Namespace) -> AnalysisOptions:
    """Reads the flags that are common to all commands that read a model."""
    return AnalysisOptions(
        target=target_of(options.flavour, prefer_stock=options.prefer_stock),
        freeze=tuple(options.freeze),
        inputs=options.inputs,
        plugins=tuple(options.plugins),
        precision=precision_of(options),
    )


def _text(
    rewritten: Rewritten, planned: Plan, tried: Conversion | ConversionError | None, *, every_node: bool
) -> str:
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
    verdict = _outcome(tried) if count == 0 else f"not convertible: {count} problem{'s' * (count > 1)}"
    return "\n".join([table([header, *rows]), *notes, *left, f"{total or 'no nodes'}; {verdict}"])


def _outcome(tried: Conversion | ConversionError | None) -> str:
    """Of a model all of whose nodes have a route."""
    if tried is None:
        return "every node has a route; building was not tried (--build)"
    if isinstance(tried, ConversionError):
        return "not convertible: every node has a route, but TensorRT does not build the graph"
    mended = "".join(f"\nwarning: {one_line(one.warning())}" for one in tried.mended)
    built = tried.built
    where = ", ".join(built.targets)
    return f"convertible: {built.flavour} {built.version} builds it for {where} in {tried.seconds['build']:.1f} s{mended}"


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
