"""A page's frame embeds its data safely, and refuses everything that is not its own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from trtsmith.converter.pages.page import ASSETS, asset, bar, embedded, page

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "a\nb\u2028c\x00",
    "\ud800 alone",
    "&lt;",
    "x" * 10_000,
)


def data_of(text: str) -> Any:
    """What the page's element of data holds, read as a browser does: up to the first end of a script."""
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script', text, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_data_comes_back_as_it_was(name: str) -> None:
    data = {"names": [name], name: name}
    text = page(name, "<main></main>", data)
    assert data_of(text) == data
    text.encode("utf-8", "strict")


def test_the_title_is_text() -> None:
    assert "<title>&lt;b&gt; &amp;</title>" in page("<b> &", "", {})


def test_embedded_data_has_no_character_that_html_reads() -> None:
    assert not set("<>&") & set(embedded(HOSTILE))


def test_numbers_that_json_lacks_are_words() -> None:
    assert json.loads(embedded({"a": (float("nan"), 1.5), "b": [float("-inf")]})) == {
        "a": ["nan", 1.5],
        "b": ["-inf"],
    }


def test_the_policy_lists_each_style_and_script_and_allows_no_request() -> None:
    text = page("t", "", {}, styles=["p { color: red }"], scripts=['"use strict"; let mine;'])
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found
    policy = dict(part.split(" ", 1) for part in found[1].split("; "))
    for directive, element in (("script-src", "script"), ("style-src", "style")):
        inline = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in inline]
        assert policy[directive].split() == [f"'sha256-{one}'" for one in hashes]
        assert len(inline) == 3
    assert policy["default-src"] == "'none'" and policy["img-src"] == "data:"
    assert policy["base-uri"] == policy["form-action"] == "'none'"


@pytest.mark.parametrize("script", ['"</SCRIPT>"', '"<!--"'])
def test_a_script_that_would_end_its_element_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="script"):
        page("t", "", {}, scripts=[script])


def test_names_in_the_bar_are_text() -> None:
    assert bar("<i>", {"a": "<b>"}).count("&lt;") == 2


def test_assets_name_no_address_and_make_no_html() -> None:
    """By which a page would ask for something, or show a name as markup."""
    for path in ASSETS.iterdir():
        text = asset(path.name)
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text
        ), path
        assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|@import|sendBeacon|url\(", text), path
