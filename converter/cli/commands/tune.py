"""trtsmith tune: searches the fastest engine that is still right."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith import report_files
from trtsmith.arguments import named_model
from trtsmith.converter.base.errors import EXIT_OK, UsageError
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.base.output_file import check_report, write_report
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.default_output import named_after
from trtsmith.converter.cli.reports.tuned_engines import render, render_plan
from trtsmith.converter.tune.tune import prepared, tune
from trtsmith.flags import add_model, add_options
from trtsmith.tune_function import TUNING, tuning_of

DESCRIPTION = (
    "Search the fastest engine whose error stays within a bound, by building and timing engines on this machine's GPU. "
    "Ctrl-C ends the search with the best so far."
)

EPILOG = """The engine's choices are written beside it as NAME.recipe.json: `trtsmith convert MODEL --recipe FILE` makes
the same engine again, on any machine. Times are medians of CUDA graphs, without copies.

examples:
  trtsmith tune model.onnx -o model.plan --inputs samples.npz --max-error 0.005
  trtsmith tune model.onnx --inputs one.npz --samples more.npz --minutes 10
  trtsmith tune model.onnx --plan
"""


class _Terminal(TypedDict, total=False):
    """output"""

    plan: Annotated[bool, Flag("only show what would be tried, and why; needs no GPU", common=True)]
    json: Annotated[StrPath | None, Flag("write everything to a file", "FILE", common=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    words = {"inputs": "the usual ones (default: generated)", "timeout": "for each build"}
    add_options(parser, TUNING, _Terminal, plugins="of your own", **words)


def run(options: argparse.Namespace, console: Console) -> int:
    model = named_model(options.model, options)
    output = None if options.plan else options.output or Path(named_after(model, ".plan"))
    asked = tuning_of(model, output, options)
    if options.plan:
        _refuse_files(options)
        known = prepared(asked, console.progress)
        console.result(render_plan(known.first(), known.reduced))
        return EXIT_OK
    check_report(options.json, (asked.convert.model, output), "--json", force=options.force)
    done = report_files.tuning(options.html, asked, lambda: tune(asked, console.progress))
    write_report(options.json, done.to_json(), "--json")
    if done.conversion is not None:
        for warning in done.conversion.warnings:
            console.say(f"warning: {warning}")
    console.result(render(done, output))
    return EXIT_OK


def _refuse_files(options: argparse.Namespace) -> None:
    """UsageError for files that a plan does not write."""
    flags = {"-o": options.output, "--json": options.json, "--html": options.html}
    if given := ", ".join(f"{flag} {path}" for flag, path in flags.items() if path is not None):
        what = f"--plan writes no file, and {given} is given"
        raise UsageError(what, given, "--plan alone, which prints what would be tried", "leave it out")
