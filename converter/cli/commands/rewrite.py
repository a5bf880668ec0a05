"""trtsmith rewrite: writes TensorRT's graph, or one for onnxruntime, plain or with its TensorRT provider."""

from __future__ import annotations

import argparse

from trtsmith.arguments import named_model
from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.cli.commands.check import FROZEN, note_lines, precision_lines
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.default_output import named_after
from trtsmith.converter.cli.problem_groups import grouped
from trtsmith.converter.convert.plan import needed_libraries
from trtsmith.converter.convert.rewriting import ONNXRUNTIME_FORM, rewrite_model
from trtsmith.converter.engine.bundle.provider_session import session_lines, slow_operators
from trtsmith.flags import add_model, add_options
from trtsmith.importers.counted import counted
from trtsmith.rewrite_function import GRAPH, form_of, rewriting_of

DESCRIPTION = "Write the graph that TensorRT gets, with plugin nodes; or one that plain onnxruntime runs."

EPILOG = """examples:
  trtsmith rewrite model.onnx -o rewritten.onnx
  trtsmith rewrite model.onnx --expand
  trtsmith rewrite model.onnx --for onnxruntime
  trtsmith rewrite model.onnx --precision fp16 --shapes images=1x3x640x640:8x3x640x640
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "IN")
    add_options(parser, GRAPH, inputs=FROZEN)


def run(options: argparse.Namespace, console: Console) -> int:
    model, form = named_model(options.model, options), form_of(options)
    if options.output is None:
        options.output = named_after(model, f".{form}.onnx")
    asked = rewriting_of(model, options.output, options)
    analysis = rewrite_model(asked, console.progress, form)
    rewritten = analysis.rewritten
    for record in rewritten.rewrites:
        console.note(f"{record.node} ({record.op_type}): {record.what}")
    for line in note_lines(rewritten, every_node=console.verbose):
        console.say(line)
    for warning in (*rewritten.warnings(), *rewritten.of_profile()):
        console.say(f"warning: {warning}")
    for line in precision_lines(rewritten, every_node=console.verbose):
        console.say(line)
    for problem in grouped(analysis.plan.problems):
        console.say(f"warning: {problem.where}: {problem.what}; TensorRT will refuse the graph")
    said = f"{options.output}: {counted(len(rewritten.rewrites), 'node')} rewritten"
    if form != ONNXRUNTIME_FORM:
        console.result(said)
        return EXIT_OK
    native = not rewritten.rewrites and not analysis.plan.problems
    console.result(said + ": TensorRT's ONNX parser imports every node as it is" * native)
    inputs, slow = graph_inputs(rewritten.model.proto), slow_operators(rewritten.model.proto.graph)
    libraries = needed_libraries(analysis.plan)
    console.result(session_lines(options.output, libraries, asked.shapes, inputs, slow))
    return EXIT_OK
