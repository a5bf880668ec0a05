"""trtsmith convert: converts a model into an engine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith import report_files
from trtsmith.arguments import named_model
from trtsmith.check_function import looked_at
from trtsmith.convert_function import CONVERSION, conversion_of, naming_recipe, with_choices
from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.cli.commands.check import FROZEN, precision_lines, show
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.default_output import DefaultEngine, named_after
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.convert.conversion import Conversion
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.pipeline import convert
from trtsmith.converter.convert.workarounds.refusals import SUFFIX
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.flags import add_model, add_options
from trtsmith.options import operator_words
from trtsmith.report_files import WrittenFiles

DESCRIPTION = (
    """Convert an ONNX model or a PyTorch program into a TensorRT engine with its plugins and a manifest."""
)

EPILOG = """examples:
  trtsmith convert model.onnx
  trtsmith convert program.pt2 -o model.plan
  trtsmith convert model.onnx --shapes images=1x3x640x640:8x3x640x640:8x3x640x640
  trtsmith convert model.onnx --precision int8 --calibration samples.npz
  trtsmith convert model.onnx --bundle-for orin --plugins-aarch64 trtsmith.whl
"""


class _Terminal(TypedDict, total=False):
    """output"""

    dry_run: Annotated[bool, Flag("only show the plan, like `trtsmith check`", common=True)]
    report: Annotated[StrPath | None, Flag("write a report of the conversion to a file", "JSON")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    inputs = f"for the comparison; default: generated. They serve {FROZEN}, too"
    refused = f"ENGINE{SUFFIX}"
    add_options(parser, CONVERSION, _Terminal, inputs=inputs, plugins="of your own", refused=refused)


def run(options: argparse.Namespace, console: Console) -> int:
    model, default = named_model(options.model, options), None
    if options.dry_run:
        given, _ = with_choices(options)
        with naming_recipe(given):
            looked = looked_at(model, given, as_is=given.as_is)
            return show(options, console, looked, build=False, as_json=False)
    if options.output is None and options.bundle_for:
        options.output = named_after(model, f"-{options.bundle_for}")
    elif options.output is None:
        default = DefaultEngine(model)
        options.output = default.path
    options.verify = None if options.no_verify else options.verify
    asked = conversion_of(model, options.output, options)

    files = WrittenFiles.of_command(options, console.progress, console.say)
    with report_files.converting(files, asked), naming_recipe(options):
        done = convert(asked, console.progress)
        replaced = "" if default is None else default.replaced()
    for warning in (*done.warnings, *([replaced] if replaced else [])):
        console.say(f"warning: {warning}")
    report_files.write_conversion(files, asked, done)
    console.result(_summary(asked, options, done))
    return EXIT_OK if done.verdict is None else done.verdict.exit_code


def _search_flags(asked: ConvertOptions, options: argparse.Namespace, verdict: Verdict) -> list[str]:
    """The conversion's flags that `trtsmith locate` needs, too: of an engine it knows all but inputs and tolerances."""
    given: dict[str, Sequence[object]] = {
        "--inputs": [] if asked.inputs is None else [asked.inputs],
        "--rtol": options.rtol,
        "--atol": options.atol,
    }
    if not verdict.engine_run:
        given |= {
            "--shapes": [f"{name}={sizes}" for name, sizes in asked.shapes.items()],
            "--values": options.values,
            "--freeze": options.freeze,
            "--keep-fp32": options.keep_fp32,
            "--accumulate": [options.accumulate] if options.accumulate else [],
            "--flavour": [] if asked.flavour == "auto" else [asked.flavour],
            "--plugins": asked.plugins,
        }
        switches = {
            "--keep-only": options.keep_only,
            "--io-precision": options.io_precision,
            "--float-lstm": options.float_lstm,
        }
        given |= {flag: [""] for flag, is_on in switches.items() if is_on}
    words = [str(word) for flag, values in given.items() for value in values for word in (flag, value)]
    return [*filter(None, words), *operator_words(options)]


def _summary(asked: ConvertOptions, options: argparse.Namespace, done: Conversion) -> str:
    engine = options.output
    routes = ", ".join(f"{count} {route}" for route, count in done.plan.routes().items())
    targets = ", ".join(done.built.targets)
    size = f"{done.built.size / 2**20:.1f} MiB"
    lines = [
        f"engine:   {engine} ({size}, {done.built.flavour} {done.built.version}, {targets})",
        *(f"plugins:  {library}" for library in done.libraries),
        f"manifest: {manifest_path(engine)}",
        f"nodes:    {routes or 'none'}",
    ]
    if not done.built.size:
        there = f"on {targets}, in that folder: python3 build_here.py"
        lines[:-1] = [f"folder:   {engine} (no engine yet)", f"build:    {there}"]
    if done.rewritten.precision is not None:
        lines += precision_lines(done.rewritten, every_node=options.verbose)
    lines.append(
        render_verdict(
            done.verdict,
            options.save_onnx or asked.model,
            engine,
            _search_flags(asked, options, done.verdict),
        )
        if done.verdict is not None
        else "verdict: not asked for (--no-verify)"
    )
    return "\n".join(lines)
