"""trtsmith check: shows how every node of a model reaches TensorRT, and every problem."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith.arguments import named_model
from trtsmith.check_function import CHECKED, build_of, looked_at
from trtsmith.converter.base.errors import EXIT_FAILED, EXIT_OK
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.base.output_file import check_report, write_report
from trtsmith.converter.base.progress import progress_reports
from trtsmith.converter.cli.console import Console, one_line, table
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.reports import analysis_report
from trtsmith.converter.convert.trial_build import check_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.records import by_sentence, said_once
from trtsmith.converter.rewrite.precision.report import SumsReport
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.flags import add_model, add_options
from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import numpy_dtype

DESCRIPTION = "Show how every node of a model reaches TensorRT, and all problems at once. Needs no GPU."

EPILOG = """examples:
  trtsmith check model.onnx
  trtsmith check model.onnx --shapes images=1x3x640x640:8x3x640x640 --precision fp16 -v
  trtsmith check model.onnx --build --target sm86
"""

FROZEN = "to freeze those that TensorRT needs constant, such as axes"


class _Terminal(TypedDict, total=False):
    """output"""

    json: Annotated[bool, Flag("every node, as JSON on stdout", common=True)]
    report: Annotated[StrPath | None, Flag("write the same JSON to a file", "JSON", common=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    refused = "they are not saved"
    add_options(parser, CHECKED, _Terminal, inputs=FROZEN, plugins="of your own", refused=refused)


def run(options: argparse.Namespace, console: Console) -> int:
    asked = looked_at(named_model(options.model, options), options, **build_of(options))
    return show(options, console, asked, build=options.build, as_json=options.json)


def show(
    options: argparse.Namespace, console: Console, asked: ConvertOptions, *, build: bool, as_json: bool
) -> int:
    """Shows the analysis. Exit code 0 if the model is convertible as far as checked, else 1. options: of `check` or
    `convert`.
    """
    report = options.report
    given = (asked.model, *asked.plugins, asked.inputs, asked.refusals.file)
    check_report(report, given, force=options.force)
    with progress_reports(console.progress) as progress:
        analysis = check_model(asked, progress, build=build)
    document = analysis_report(asked.model, analysis) if as_json or report is not None else {}
    write_report(report, document)
    if as_json:
        console.json(document)
    else:
        console.result(_text(analysis, every_node=console.verbose))
        console.problems(analysis.problems)
    return EXIT_OK if analysis.convertible else EXIT_FAILED


def _text(analysis: Analysis, *, every_node: bool) -> str:
    rewritten, planned = analysis.rewritten, analysis.plan
    if every_node:
        rows = [(node.name, node.op_type, node.route.value, node.how) for node in planned.nodes]
        header = ("node", "operator", "route", "how")
    else:
        counts = Counter((node.op_type, node.route.value, node.how) for node in planned.nodes)
        rows = [(str(n), op_type, route, how) for (op_type, route, how), n in sorted(counts.items())]
        header = ("nodes", "operator", "route", "how")
    notes = note_lines(rewritten, every_node=every_node)
    notes += [f"warning: {warning}" for warning in (*rewritten.warnings(), *planned.warnings)]
    left = [
        f"unchanged:  {record.node} ({record.op_type}): {record.refusal.reason}"
        for record in rewritten.declined
        if not record.fatal
    ]
    left += precision_lines(rewritten, every_node=every_node)
    total = ", ".join(f"{number} {route}" for route, number in planned.routes().items())
    notes += [f"warning: {one.warning()}" for one in analysis.mended]
    count = len(planned.problems)
    verdict = _outcome(analysis) if count == 0 else f"not convertible: {counted(count, 'problem')}"
    return "\n".join(
        [table([header, *rows]), *map(one_line, (*notes, *left)), f"{total or 'no nodes'}; {verdict}"]
    )


def _outcome(analysis: Analysis) -> str:
    """The outcome for a model whose nodes all have a route."""
    built = analysis.built
    if analysis.refusal:
        return "not convertible: every node has a route, but TensorRT does not build the graph"
    if built is None:
        return "every node has a route; building was not tried (--build)"
    where = ", ".join(built.targets)
    return f"convertible: {built.flavour} {built.version} builds it for {where}, in {built.seconds:.1f} s"


def note_lines(rewritten: Rewritten, *, every_node: bool) -> list[str]:
    """Notes of rules: a line for each note, or with every_node for each note of each node."""
    nodes = by_sentence((record.node, note) for record in rewritten.rewrites for note in record.notes)
    if every_node:
        return [f"note: {name}: {note}" for note, names in nodes.items() for name in names]
    return [f"note: {line}" for line in said_once(nodes)]


def _sums_line(model: Model, sums: SumsReport | None) -> str:
    """The line on sums in float16; "" where the only outputs are indices: their distance as numbers says nothing."""
    if sums is None or sums.error is None:
        return "" if sums is None else sums.line()
    whole = all(numpy_dtype(one.type.tensor_type.elem_type).kind in "iub" for one in model.proto.graph.output)
    return "" if whole else sums.line()


def precision_lines(rewritten: Rewritten, *, every_node: bool) -> list[str]:
    """Returns the summary of the precision pass, and with every_node the nodes left in float32; empty without a
    precision.
    """
    report = rewritten.precision
    if report is None:
        return []
    kept = report.kept if every_node else ()
    more = {"ranges": report.range_line(), "sums": _sums_line(rewritten.model, report.sums)}
    return [
        *(f"in float32: {one_line(k.node)} ({one_line(k.op_type)}): {one_line(k.reason)}" for k in kept),
        f"precision: {one_line(report.summary())}",
        *(f"{name}: {one_line(text)}" for name, text in more.items() if text),
    ]
