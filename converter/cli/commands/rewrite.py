"""trtsmith rewrite IN -o OUT: the graph that TensorRT gets, or with --expand one that plain onnxruntime runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import (
    add_flavour,
    add_freezing,
    add_model,
    add_operators,
    add_shapes,
    model_of,
    shapes_of,
)
from trtsmith.converter.cli.commands.check import precision_lines
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.default_output import default_graph
from trtsmith.converter.cli.precision_arguments import add_precision, precision_of
from trtsmith.converter.cli.problem_groups import grouped
from trtsmith.converter.convert.rewriting import RewriteOptions, rewrite_model
from trtsmith.converter.model.errors import EXIT_OK
from trtsmith.converter.model.shape_tensors import parse_values


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "rewrite",
        parents=[common],
        description="Write the graph that TensorRT gets, with plugin nodes; or one that plain onnxruntime runs.",
        allow_abbrev=False,
    )
    add_model(parser, "IN")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="the .onnx file to write; default: the model's name with .rewritten.onnx (.expanded.onnx, .plugin-v2.onnx), in "
        "the current folder",
    )
    add_flavour(parser)
    add_shapes(parser)
    add_freezing(parser, "to which axes and other inputs that TensorRT wants constant are frozen")
    add_precision(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--expand",
        action="store_true",
        help="write custom operators as standard ones, for plain onnxruntime",
    )
    form.add_argument(
        "--plugin-v2", action="store_true", help="write plugin nodes for the V2 plugins of TensorRT 8.6 to 10"
    )
    add_operators(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.output is None:
        form = "expanded" if options.expand else "plugin-v2" if options.plugin_v2 else "rewritten"
        options.output = default_graph(model_of(options), form, console)
    analysis = rewrite_model(rewrite_options(options), console.progress)
    rewritten = analysis.rewritten
    for record in rewritten.rewrites:
        console.note(f"{record.node} ({record.op_type}): {record.what}")
        for note in record.notes:
            console.say(f"note: {record.node}: {note}")
    for warning in (*rewritten.warnings(), *rewritten.of_profile()):
        console.say(f"warning: {warning}")
    for line in precision_lines(rewritten, every_node=console.verbose):
        console.say(line)
    for problem in grouped(analysis.plan.problems):
        console.say(f"warning: {problem.where}: {problem.what}; TensorRT will refuse the graph")
    count = len(rewritten.rewrites)
    console.result(f"{options.output}: {count} node{'s' * (count != 1)} rewritten")
    return EXIT_OK


def rewrite_options(options: argparse.Namespace) -> RewriteOptions:
    return RewriteOptions(
        model=model_of(options),
        output=options.output,
        flavour=options.flavour,
        freeze=tuple(options.freeze),
        inputs=options.inputs,
        precision=precision_of(options),
        expand=options.expand,
        plugin_v2=options.plugin_v2,
        shapes=shapes_of(options),
        values=parse_values(options.values),
    )
