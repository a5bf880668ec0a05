"""trtsmith batch diff OLD NEW"""

from __future__ import annotations

import argparse
from pathlib import Path

from trtsmith.converter.batch.results.changes import WORSE
from trtsmith.converter.batch.results.diff import diff_results
from trtsmith.converter.batch.results.diff_page import diff_page
from trtsmith.converter.batch.results.document import RESULTS
from trtsmith.converter.batch.results.reading import load_results
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.batch_diff import render
from trtsmith.converter.model.errors import EXIT_FAILED, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_text

DESCRIPTION = (
    "Say what became better, worse or merely different between two results of a batch: status, errors, engine size, "
    "latency beyond noise, warnings, routes and versions."
)


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `trtsmith batch diff`."""
    parser.add_argument(
        "old", type=Path, metavar="OLD", help="a folder of `trtsmith batch`, or its results.json"
    )
    parser.add_argument("new", type=Path, metavar="NEW", help="another, later one")
    parser.add_argument("--json", action="store_true", help="print the difference as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that shows it, too")
    parser.add_argument(
        "--fail-on",
        choices=(WORSE,),
        help="exit code 1 if anything became worse; without it a difference is no failure",
    )


def run_diff(options: argparse.Namespace, console: Console) -> int:
    """Print the difference; the exit code. UsageError for what is no result of a batch."""
    given = [file for path in (options.old, options.new) for file in (path, path / RESULTS)]
    check_report(options.html, given, flag="--html", what="the page")
    diff = diff_results(load_results(options.old), load_results(options.new))
    if options.html is not None:
        write_text(options.html, diff_page(diff), "--html", "the page")
    if options.json:
        console.json(diff.to_json())
    else:
        console.result(render(diff))
    return EXIT_FAILED if options.fail_on == WORSE and diff.of(WORSE) else EXIT_OK
