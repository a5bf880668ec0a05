"""Makes index.html of a batch from its results document: one file, which asks nothing of any network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from trtsmith.converter.pages.page import bar, page

INDEX = "index.html"

_ASSETS = Path(__file__).with_name("assets")
_SCRIPTS = ("figures.js", "filters.js", "grid.js", "kinds.js", "details.js", "index.js")

_BODY = """\
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


def index_page(document: Mapping[str, Any]) -> str:
    """The HTML of a results document. Files of tasks are linked relative to the folder in which the page lies."""
    title = document["title"] or "trtsmith batch"
    sections = {"summary": "Summary", "grid": "Grid", "kinds": "Problems", "tasks": "Tasks"}
    return page(
        title,
        bar("trtsmith batch", sections) + _BODY,
        document,
        styles=[results_asset("results.css")],
        scripts=[results_asset(name) for name in _SCRIPTS],
    )


@cache
def results_asset(name: str) -> str:
    """The text of a style or script of the pages of batches."""
    return (_ASSETS / name).read_text(encoding="utf-8")
