"""Makes the page of a difference between two results of a batch."""

from __future__ import annotations

from trtsmith.converter.batch.results.diff import ResultsDiff
from trtsmith.converter.batch.results.index_page import results_asset
from trtsmith.converter.pages.page import bar, page

_BODY = """\
<main>
<h1 class="head-line">What changed</h1>
<p class="soft" id="sides"></p>
<noscript><p>This page needs JavaScript; `trtsmith batch diff --json` says the same.</p></noscript>
<section id="summary" aria-label="summary"></section>
<section id="versions"><h2>Versions that changed</h2></section>
<section id="tasks"><h2>Tasks</h2></section>
</main>
"""


def diff_page(diff: ResultsDiff) -> str:
    """The HTML of a difference."""
    return page(
        "trtsmith batch diff",
        bar("trtsmith batch diff", {"summary": "Summary", "tasks": "Tasks"}) + _BODY,
        diff.to_json(),
        styles=[results_asset("results.css")],
        scripts=[results_asset("diff.js")],
    )
