"""The documents' site in a browser: on a phone, with axe-core, copied text, and search results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pagecheck.axe import violations
from pagecheck.chromium import NAMES, Chromium

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "index.html", "quickstart.html", "guides/reports.html", "evidence/index.html", "evidence/plugin-registries.html",
    "reference/python/runner.html", "404.html",
)  # fmt: skip
"""One of each layout: a guide, code, tables, generated parts."""

pytestmark = [
    pytest.mark.program(*NAMES),
    pytest.mark.skipif(shutil.which("mkdocs") is None, reason="mkdocs is not installed"),
]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, which is built as `make docs` does and served for the search's sake."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def shown(browser: Chromium, address: str, width: int = 1280) -> Chromium:
    browser.look(width, 844)
    browser.open(address)
    count = "document.querySelectorAll('{}').length".format
    wrapped = f"{count('table:not([class])')} === {count('.md-typeset__table')}"
    browser.wait_for(lambda: browser.evaluate(wrapped))  # by the theme, after it has loaded
    browser.settle()
    return browser


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_telephone_and_axe_finds_nothing(name: str, site: str, browser: Chromium) -> None:
    page = shown(browser, f"{site}/{name}", 390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert violations(page) == []
    page = shown(browser, f"{site}/{name}")
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    page.settle()
    assert violations(page) == []
    asked = [address for address in page.requests() if not address.startswith(site)]
    assert asked == [] and page.evaluate("document.documentElement.scrollWidth") == 1280


def test_what_is_copied_is_the_commands_alone(site: str, browser: Chromium) -> None:
    page = shown(browser, f"{site}/guides/reports.html")
    page.evaluate(
        """globalThis.copied = "";
        addEventListener("copy", (event) => { copied = getSelection().toString() || event.target.value; });
        document.querySelector(".highlight:has(.gp)").scrollIntoView({block: "center"})"""
    )
    seen = page.evaluate("document.querySelector('.highlight:has(.gp) code').innerText")
    assert seen.startswith("$ trtsmith sample detector\n...\n$ trtsmith convert")
    button = "document.querySelector('.highlight:has(.gp) [data-md-type=copy]').getBoundingClientRect()"
    page.click(*page.evaluate(f"(({{left, top}}) => [left + 5, top + 5])({button})"))
    commands = page.evaluate("copied").splitlines()
    assert [line.split()[:2] for line in commands] == [["trtsmith", "sample"], ["trtsmith", "convert"]]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("--precision", "guides/precision.html"),
        ("fp16", "guides/precision.html"),
        ("install", "quickstart.html"),
        ("disagree", "guides/verify-and-locate.html"),
        ("not comparable", "guides/verify-and-locate.html"),
        ("yolo", "guides/yolo.html"),
    ],
)
def test_the_search_finds_guides_before_evidence_and_notes(
    query: str, page: str, site: str, browser: Chromium
) -> None:
    shown(browser, f"{site}/index.html").evaluate("document.querySelector('.md-search__input').focus()")
    browser.type(query)
    browser.press("ArrowRight")  # the search listens to keys that come up
    links = (
        "[...document.querySelectorAll('.md-search-result__item > a')].map((one) => one.pathname.slice(1))"
    )
    browser.wait_for(lambda: len(browser.evaluate(links)) > 5)
    found = browser.evaluate(links)
    assert found[0] == page
    last = max(at for at, name in enumerate(found) if name.startswith("guides/"))
    assert not [name for name in found[:last] if name.startswith(("maintainers/", "evidence/"))]
