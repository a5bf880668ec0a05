"""trtsmith batch diff OLD NEW"""

from __future__ import annotations

import argparse

from trtsmith.converter.batch.results.diff import WORSE, diff_results
from trtsmith.converter.batch.results.document import RESULTS, load_results
from trtsmith.converter.batch.results.pages import diff_page
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.batch_diff import render
from trtsmith.converter.model.errors import EXIT_FAILED, EXIT_OK
from trtsmith.converter.model.output_file import check_report, write_text


def run_diff(options: argparse.Namespace, console: Console) -> int:
    """Print the difference; the exit code. UsageError for what is no result of a batch.

    options: old and new (paths), json (whether it is printed as JSON), html (a file for its page, or None), fail_on
        ("worse": exit code 1 if anything became worse; or None).
    """
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
