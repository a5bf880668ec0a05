"""Builds the frame of every page: one HTML file with its styles, scripts and data, without network requests.

What a page shows comes from models, which others wrote. So nothing of it is ever HTML: it travels as JSON in an element
that no browser executes, and scripts show it through textContent. A Content-Security-Policy lists the hashes of our own
scripts and styles: any other script, style, image, frame or request is refused by the browser, whatever the data says.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from trtsmith.converter.base.own_files import GENERATOR

ASSETS = Path(__file__).with_name("assets")

SHARED_STYLES = ("frame.css", "table.css")
SHARED_SCRIPTS = ("frame.js", "table.js")
"""Assets that every page has, in this order: what they declare, the page's own may use."""


def page(title: str, body: str, data: Any, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """Writes the HTML of a page.

    title:   plain text, shown in the window's title; scripts find it in `document.title`.
    body:    HTML that we wrote, the same for every model (see `bar`).
    data:    plain data, which scripts find as `Frame.data`. Numbers that JSON lacks become "nan", "inf" and "-inf".
    styles, scripts: texts (see `asset`) after those that every page has.

    Raises ValueError for a style or script that would end its own element.
    """
    css = [*(asset(name) for name in SHARED_STYLES), *styles]
    js = [*(asset(name) for name in SHARED_SCRIPTS), *scripts]
    policy = "; ".join(
        (
            "default-src 'none'",
            "script-src " + " ".join(_hash(text) for text in js),
            "style-src " + " ".join(_hash(text) for text in css),
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    lines = (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        GENERATOR,
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',  # otherwise a browser asks the server for one
        f"<title>{html.escape(_without_surrogates(title))}</title>",
        *(f"<style>{_inline(text, 'style')}</style>" for text in css),
        "</head>",
        "<body>",
        body,
        f'<script type="application/json" id="page-data">{embedded(data)}</script>',
        *(f"<script>{_inline(text, 'script')}</script>" for text in js),
        "</body>",
        "</html>",
    )
    return "\n".join(lines) + "\n"


def bar(name: str, sections: Mapping[str, str]) -> str:
    """Writes the bar at the top: the page's name, links to sections (text by id), and the theme button."""
    links = "".join(
        f'<a href="#{html.escape(id_)}">{html.escape(text)}</a>' for id_, text in sections.items()
    )
    return (
        f'<header class="bar"><span class="name">{html.escape(name)}</span><nav aria-label="sections">{links}</nav>'
        "<span data-theme-button></span></header>"
    )


@cache
def asset(name: str) -> str:
    """Returns the text of a file in assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    """Writes JSON that is safe anywhere in HTML: ASCII without <, > and &."""
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(finite(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(value: Any) -> Any:
    """Returns the same data, with "nan", "inf" and "-inf" for the numbers that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


def _inline(text: str, element: str) -> str:
    """Text for the inside of a style or script element."""
    lowered = text.lower()
    if f"</{element}" in lowered or "<!--" in lowered:
        raise ValueError(
            f"a {element} of a page holds </{element} or <!--, which would end it or hide its end"
        )
    return text


def _hash(text: str) -> str:
    """The hash by which a Content-Security-Policy names an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _without_surrogates(text: str) -> str:
    """Paths that are no UTF-8 come as lone surrogates, which no file of ours can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
