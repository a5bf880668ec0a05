"""Makes the page of one conversion: a frame with empty sections, which scripts fill from the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    "work": "What was done",
    "network": "Network",
    "depth": "Errors by depth",
    "time": "Time",
    "precision": "Precision",
    "nodes": "Nodes",
    "about": "Versions and files",
}
"""Ids and titles, in their order; a script hides those that have nothing to show, and their links."""


def conversion_page(document: Mapping[str, Any]) -> str:
    """The HTML for a document of conversion_document."""
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
