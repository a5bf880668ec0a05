"""Writes the report page of a conversion (--html) and its overlays for Model Explorer (--model-explorer)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.output_file import check_report, write_text
from trtsmith.converter.base.own_files import PAGE
from trtsmith.converter.pages.conversion_document import PageContent, conversion_document
from trtsmith.converter.pages.model_explorer import check_overlays, write_overlays
from trtsmith.converter.pages.page import asset, bar, page

STYLES = ("conversion.css",)
SCRIPTS = (
    "network_data.js",
    "network_paint.js",
    "network_view.js",
    "network_search.js",
    "charts.js",
    "conversion.js",
    "findings.js",
)
"""Assets after those that every page has, in the order in which they use each other."""

SECTIONS = {
    "problems": "Problems",
    "outputs": "Outputs",
    "work": "Changes to the graph",
    "network": "Network",
    "depth": "Errors by depth",
    "time": "Time",
    "precision": "Precision",
    "nodes": "Nodes",
    "about": "Versions and files",
}
"""Ids and titles, in their order; a script hides those that have nothing to show, and their links."""


def conversion_page(document: Mapping[str, Any]) -> str:
    """Writes the HTML for a document of conversion_document."""
    sections = "".join(
        f'<section id="{id_}" aria-labelledby="{id_}-title" hidden><h2 id="{id_}-title">{title}</h2></section>'
        for id_, title in SECTIONS.items()
    )
    body = bar("trtsmith", SECTIONS) + f'<main><section id="summary"></section>{sections}</main>'
    return page(
        f"{document['title']} - trtsmith {document['kind']}",
        body,
        document,
        styles=[asset(name) for name in STYLES],
        scripts=[asset(name) for name in SCRIPTS],
    )


@dataclass(frozen=True)
class PageFiles:
    """The files to write. html: a file. overlays: a folder for Model Explorer's node data."""

    html: Path | None = None
    overlays: Path | None = None

    def check(self, others: Iterable[object] = (), *, force: bool = False) -> None:
        """Checks the paths before any work. Raises UsageError if one is unwritable or would replace another.

        force: other files may be replaced, whatever they are.
        """
        check_report(self.html, others, "--html", "the page", PAGE, force=force)
        check_overlays(self.overlays, force=force)

    def write(self, content: Callable[[], PageContent]) -> None:
        """Writes the page, if asked for. Its content is computed only then."""
        if self.html is None and self.overlays is None:
            return
        known = content()
        if self.html is not None:
            write_text(self.html, conversion_page(conversion_document(known)), "--html", "the page")
        if self.overlays is not None:
            write_overlays(self.overlays, known)
