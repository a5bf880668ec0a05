"""Writes the page of a search for the fastest engine: every engine by latency and error, and its flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtsmith.converter.pages.page import asset, bar, page

_BODY = (
    '<main><section id="summary"></section>'
    '<section id="engines" aria-labelledby="engines-title"><h2 id="engines-title">Engines</h2></section></main>'
)


def tuned_page(name: str, document: Mapping[str, Any]) -> str:
    """The HTML of the page. name: of the model. document: of Tuned.to_json."""
    scripts = [asset(one) for one in ("charts.js", "tuned.js")]
    body = bar("trtsmith", {"engines": "Engines"}) + _BODY
    return page(f"{name} - trtsmith tune", body, document, styles=[asset("conversion.css")], scripts=scripts)
