"""Every kind of page on a phone, by keyboard and by screen reader: widths, keys, and axe-core's findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from pagecheck.axe import violations
from pagecheck.chromium import NAMES, Chromium
from pagecheck.large_network import large_network
from pagecheck.sample_page import sample_document
from tests.converter.batch.results.sample import (
    VERSIONS,
    record,
    report,
    times,
    write_pair,
    write_results,
    zoo,
)
from tests.converter.pages.everything import EVERYTHING, TUNED
from trtsmith.converter.batch.results.diff import diff_results
from trtsmith.converter.batch.results.document import load_results
from trtsmith.converter.batch.results.pages import diff_page
from trtsmith.converter.batch.task import TaskStatus
from trtsmith.converter.pages.conversion_document import PageContent, conversion_document
from trtsmith.converter.pages.tuned_page import tuned_page
from trtsmith.converter.pages.writing import conversion_page

pytestmark = pytest.mark.program(*NAMES)

WIDTHS = (390, 768, 1280)
LEFT_OUT = {"output": "y9", "why": "output 'y9' is random", "accepted": False}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind, with something in every section."""
    folder = tmp_path_factory.mktemp("pages")
    onnx.save(large_network(600), folder / "large.onnx")
    failed = PageContent("convert", "m.onnx", (), {"problems": EVERYTHING["problems"]}, {})
    conversion = sample_document(folder / "large.onnx") | EVERYTHING
    conversion["status"] = {"word": "disagree", "level": "bad", "reason": "too far off"}
    for name, document in (("conversion", conversion), ("failure", conversion_document(failed))):
        (folder / f"{name}.html").write_text(conversion_page(document), encoding="utf-8")
    told = report()
    told["verdict"]["left_out"] = [LEFT_OUT]
    tasks = [
        *zoo(3),
        record("long/a", TaskStatus.DISAGREE, {"target": "sm86"}, report=told, bench=times(1.0)),
    ]
    (folder / "batch").mkdir()
    write_results(folder / "batch", tasks, title="zoo.toml", planned=30)
    refused = record("b", TaskStatus.REFUSED, warnings=("a warning of more than only three words",))
    new = [record("a", versions=VERSIONS | {"onnx": "1.24"}), refused, record("c")]
    write_pair(folder, [record("a"), record("b")], new)
    diff = diff_results(load_results(folder / "old"), load_results(folder / "new"))
    (folder / "diff.html").write_text(diff_page(diff), encoding="utf-8")
    (folder / "tuned.html").write_text(tuned_page("m.onnx", TUNED), encoding="utf-8")
    kinds = ("conversion", "failure", "diff", "tuned")
    return {kind: folder / f"{kind}.html" for kind in kinds} | {"batch": folder / "batch" / "index.html"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


Shown = Callable[..., Chromium]


@pytest.fixture
def shown(browser: Chromium, pages: dict[str, Path]) -> Iterator[Shown]:
    """Opens a page of a kind, so wide, light or dark, with the drawer open or not."""

    def show(kind: str, width: int = 1280, *, dark: bool = False, drawer: bool = False) -> Chromium:
        browser.look(width, 844, dark=dark)
        browser.open(pages[kind])
        if drawer:
            table = {"conversion": "nodes", "batch": "tasks"}[kind]
            browser.evaluate(f"document.querySelector('#{table} tr.pickable').click()")
        browser.settle()
        return browser

    yield show
    assert browser.complaints() == [] and browser.requests() == []


KINDS = [(kind, False) for kind in ("conversion", "failure", "batch", "diff", "tuned")]
KINDS += [("conversion", True), ("batch", True)]

BEYOND = """(() => { const wide = document.documentElement.clientWidth;
    return [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > wide + 1
        && !one.closest(".scroll, .bar nav, svg")).map((one) => one.tagName + "." + one.className); })()"""

SQUEEZED = """[...document.querySelectorAll("td")].filter((cell) => {
    const words = cell.innerText.trim().split(/\\s+/).length, text = document.createRange();
    text.selectNodeContents(cell);
    const lines = new Set([...text.getClientRects()].map((one) => Math.round(one.top / 8))).size;
    return words > 3 && lines > words / 2 + 1; }).map((cell) => cell.innerText)"""


@pytest.mark.parametrize(("kind", "drawer"), KINDS)
def test_nothing_is_wider_than_the_window_and_no_column_has_one_word_a_line(
    kind: str, drawer: bool, shown: Shown
) -> None:
    for width in WIDTHS:
        page = shown(kind, width, drawer=drawer)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(BEYOND) == [], width
        assert page.evaluate(SQUEEZED) == [], width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("kind", "drawer"), KINDS)
def test_axe_finds_nothing(kind: str, drawer: bool, dark: bool, shown: Shown) -> None:
    assert violations(shown(kind, 1280 if dark else 390, dark=dark, drawer=drawer)) == []


def test_axe_sees_what_is_wrong(tmp_path: Path, browser: Chromium) -> None:
    path = tmp_path / "wrong.html"
    path.write_text("<html lang=en><title>t</title><main><h1>t</h1><button></button></main>")
    browser.open(path)
    assert [one.partition(":")[0] for one in violations(browser)] == ["button-name"]


CLICKED = """[...document.querySelectorAll("a[href], button, select, input, summary, canvas, .scroll, tr[tabindex='0']")]
    .filter((one) => one.getClientRects().length && !one.closest("details:not([open]) > :not(summary)"))"""


@pytest.mark.parametrize(("kind", "drawer"), KINDS)
def test_tab_comes_to_everything_that_is_clicked(kind: str, drawer: bool, shown: Shown) -> None:
    """Of a table whose rows are chosen it comes to one row, from which arrows go on."""
    page = shown(kind, drawer=drawer)
    page.evaluate("document.body.tabIndex = -1; document.body.focus(); globalThis.seen = new Set()")
    wanted = page.evaluate(f"{CLICKED}.length")
    for _ in range(wanted + 10):
        page.press("Tab")
        page.evaluate("seen.add(document.activeElement)")
    missed = f"{CLICKED}.filter((one) => !seen.has(one)).map((one) => one.outerHTML.slice(0, 100))"
    assert page.evaluate(missed) == [] and wanted >= (3 if kind == "failure" else 9)


@pytest.mark.parametrize(
    ("kind", "table", "title"), [("conversion", "nodes", "h3"), ("batch", "tasks", "h2")]
)
@pytest.mark.parametrize("key", ["Enter", " "])
def test_keys_choose_a_row_and_come_back_to_it(
    kind: str, table: str, title: str, key: str, shown: Shown
) -> None:
    page = shown(kind)
    page.evaluate(f"document.querySelector('#{table} tr[tabindex=\"0\"]').focus()")
    names = []
    for arrow in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.press(arrow)
        names.append(page.evaluate("document.activeElement.ariaRowIndex"))
    assert names == ["3", "4", "3"]
    assert page.evaluate(f"document.querySelectorAll('#{table} tr[tabindex=\"0\"]').length") == 1
    page.press(key)
    assert page.evaluate(f"document.activeElement === document.querySelector('.details {title}')")
    page.press("Tab")
    assert page.evaluate("document.activeElement.closest('.details') !== null")
    page.press("Escape")
    assert page.evaluate("document.querySelector('.details').hidden")
    assert page.evaluate("[document.activeElement.ariaRowIndex, document.activeElement.ariaSelected]") == [
        "3",
        "true",
    ]


def test_arrows_go_through_a_table_of_which_only_the_rows_in_sight_are_there(shown: Shown) -> None:
    page = shown("conversion")
    assert page.evaluate("document.querySelector('#nodes .scroll').classList.contains('windowed')")
    page.evaluate("document.querySelector('#nodes tr[tabindex=\"0\"]').focus()")
    for _ in range(60):
        page.press("ArrowDown")
    assert page.evaluate("document.activeElement.ariaRowIndex") == "62"
    box = "document.querySelector('#nodes .scroll').getBoundingClientRect()"
    assert page.evaluate(f"document.activeElement.getBoundingClientRect().bottom <= {box}.bottom + 1")


def test_no_press_of_a_held_arrow_is_lost_where_the_drawn_rows_end(shown: Shown) -> None:
    """All in one task of the browser, so that no event of scrolling comes between two of them."""
    page = shown("conversion")
    page.evaluate("document.querySelector('#nodes tr[tabindex=\"0\"]').focus()")
    page.evaluate(
        "for (let i = 0; i < 60; i += 1) document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }))"
    )
    assert page.evaluate("document.activeElement.ariaRowIndex") == "62"


def test_a_cell_of_the_grid_is_a_button_that_looks_like_one(shown: Shown) -> None:
    page = shown("batch")
    cell = "document.querySelector('#grid td.cell button')"
    style: Callable[[str], Any] = lambda name: page.evaluate(f"getComputedStyle({cell}).{name}")  # noqa: E731
    assert style("cursor") == "pointer" and ", 0)" not in style("borderTopColor")
    before = style("boxShadow"), style("outlineStyle")
    page.evaluate(f"{cell}.scrollIntoView({{block: 'center'}})")
    place = page.evaluate(f"(({{left, top}}) => [left + 5, top + 5])({cell}.getBoundingClientRect())")
    page.mouse("mouseMoved", *place)
    assert style("boxShadow") != before[0] == "none"
    page.evaluate("document.querySelector('#grid .scroll').focus()")
    page.press("Tab")
    assert page.evaluate(f"document.activeElement === {cell}") and style("outlineStyle") != before[1]
    page.press(" ")
    assert page.evaluate("document.activeElement === document.querySelector('.details h2')")
    page.press("Escape")
    assert page.evaluate(f"document.activeElement === {cell}")


@pytest.mark.parametrize(
    ("kind", "place", "output", "why"),
    [
        ("conversion", "#outputs", "z", "output 'z' is not comparable; accepted"),
        ("batch", ".details", "y9", "output 'y9' is random"),
    ],
)
def test_an_output_that_was_not_compared_is_named_with_the_reason(
    kind: str, place: str, output: str, why: str, shown: Shown
) -> None:
    page = shown(kind, drawer=True)
    if kind == "batch":
        page.go_to("#task=long%2Fa")
    notes = page.evaluate(f"[...document.querySelectorAll('{place} .note')].map((one) => one.innerText)")
    assert f"{output} not compared {why}" in [" ".join(note.split()) for note in notes]
