"""Makes the HTML pages of batches, index.html and comparisons: one file each, without network requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.diff import ResultsDiff
from trtsmith.converter.batch.results.document import RESULTS, document_text, results_document
from trtsmith.converter.batch.results.junit import JUNIT, junit_text
from trtsmith.converter.model.output_file import write_whole
from trtsmith.converter.pages.page import bar, page

INDEX = "index.html"

_ASSETS = Path(__file__).with_name("assets")
_SCRIPTS = ("figures.js", "filters.js", "grid.js", "kinds.js", "details.js", "index.js")

_INDEX_BODY = """\
<main>
<h1 class="head-line"><bdi id="title"></bdi></h1>
<p class="soft" id="written"></p>
<noscript><p>This page needs JavaScript; results.json beside it says the same.</p></noscript>
<section id="summary" aria-label="summary"></section>
<section id="filters" aria-label="filters"></section>
<section id="grid"><h2>Models by variant</h2></section>
<section id="kinds"><h2>Problems and warnings</h2></section>
<section id="tasks"><h2>Tasks</h2></section>
</main>
"""


MOST = 20
"""Outputs, problems, warnings and plugin layers of one task that the page shows: it holds a thousand tasks, and its record
has the rest."""


def index_page(document: Mapping[str, Any]) -> str:
    """The HTML of a results document. Files of tasks are linked relative to the folder in which the page lies."""
    title = document["title"] or "trtsmith batch"
    sections = {"summary": "Summary", "grid": "Grid", "kinds": "Problems", "tasks": "Tasks"}
    return page(
        title,
        bar("trtsmith batch", sections) + _INDEX_BODY,
        {**document, "tasks": [_shown(task) for task in document["tasks"]]},
        styles=[_asset("results.css")],
        scripts=[_asset(name) for name in _SCRIPTS],
    )


def _shown(task: Mapping[str, Any]) -> dict[str, Any]:
    """What the page has of a task. left_out: how many of its outputs, problems, ... it has not."""
    shown, left_out = dict(task), {}
    del shown["nodes"]
    for name in ("problems", "warnings"):
        shown[name], left_out[name] = _first(task[name])
    if task["verdict"]:
        outputs, left_out["outputs"] = _first(sorted(task["verdict"]["outputs"], key=_badness, reverse=True))
        shown["verdict"] = {**task["verdict"], "outputs": outputs}
    if task["engine"]:
        layers, left_out["plugin_layers"] = _first(task["engine"]["plugin_layers"])
        shown["engine"] = {**task["engine"], "plugin_layers": layers}
    return shown | {"left_out": {name: count for name, count in left_out.items() if count}}


def _first(entries: Sequence[Any]) -> tuple[Sequence[Any], int]:
    return entries[:MOST], max(0, len(entries) - MOST)


def _badness(output: Mapping[str, Any]) -> tuple[bool, float, float]:
    """The worst output is that by which a task is judged: it is never left out."""
    used, relative = (math.inf if output[name] is None else output[name] for name in ("used", "relative"))
    return not output["agrees"], used if not output["agrees"] or output["used"] is not None else 0.0, relative


_DIFF_BODY = """\
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
        bar("trtsmith batch diff", {"summary": "Summary", "tasks": "Tasks"}) + _DIFF_BODY,
        diff.to_json(),
        styles=[_asset("results.css")],
        scripts=[_asset("diff.js")],
    )


def write_rows(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
) -> None:
    """Write the files for these entries (task_row) into the folder, each whole or not at all; the folder is there already.

    It may be called as often as the batch goes on: for 1,000 entries it takes a fraction of a second. A driver keeps these
    instead of the records, which are much larger.

    title, planned, wall_s: as for results_document.

    OSError where a file cannot be written.
    """
    document = results_document(rows, title=title, planned=planned, wall_s=wall_s)
    for name, text in (
        (RESULTS, document_text(document)),
        (JUNIT, junit_text(document)),
        (INDEX, index_page(document)),
    ):
        write_whole(folder / name, text)


@cache
def _asset(name: str) -> str:
    """The text of a style or script of the pages of batches."""
    return (_ASSETS / name).read_text(encoding="utf-8")
