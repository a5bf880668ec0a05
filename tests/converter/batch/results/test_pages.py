"""The pages of a batch in a browser: show, sort, filter and open, by mouse and keyboard, without requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagecheck.chromium import NAMES, Chromium
from tests.converter.batch.results.sample import (
    HOSTILE_NAMES,
    PROBLEM,
    VERSIONS,
    record,
    report,
    search,
    times,
    write_pair,
    write_results,
    zoo,
)
from trtsmith.converter.batch.results.diff import diff_results
from trtsmith.converter.batch.results.document import load_results
from trtsmith.converter.batch.results.pages import diff_page
from trtsmith.converter.batch.task import TaskStatus

pytestmark = pytest.mark.program(*NAMES)

ROWS = "[...document.querySelectorAll('#tasks tbody tr')]"
COUNT = "document.querySelector('.filters .count').textContent"
PANEL = "document.querySelector('.details')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Chromium) -> Iterator[Chromium]:
    """Every test ends without a complaint on the console, and without a request."""
    browser.look(1280, 900)
    yield browser
    assert browser.complaints() == [] and browser.requests() == [] and browser.dialogs() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 tasks of three models, the second refused."""
    made = tmp_path_factory.mktemp("batch")
    records = list(zoo(3, seed=2))
    records[1] = record(records[1].name, TaskStatus.REFUSED, records[1].variant, warnings=("take care",))
    write_results(made, records, sources={records[0].name: "cache"}, title="zoo.toml", planned=30)
    return made


def fill(page: Chromium, selector: str, value: str, event: str = "input") -> None:
    page.evaluate(
        f"(() => {{ const field = document.querySelector({selector!r}); field.value = {value!r};"
        f" field.dispatchEvent(new Event({event!r})); }})()"
    )


def test_the_summary_says_what_has_ended(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    text = page.evaluate("document.querySelector('main').innerText")
    assert "zoo.toml" in text and "24 / 30" in text and "6 tasks have not ended" in text
    assert "No engine ran: a verdict without a run" in text
    assert page.evaluate(f"{ROWS}.length") == 24 and page.evaluate(COUNT) == "24 tasks"
    assert page.evaluate("document.title") == "zoo.toml"


def test_a_tuned_task_shows_both_latencies(page: Chromium, tmp_path: Path) -> None:
    write_results(tmp_path, [record("plain"), record("tuned", tune=search())])
    page.open(tmp_path / "index.html")
    heads = page.evaluate("[...document.querySelectorAll('#tasks thead th')].map((head) => head.innerText)")
    assert "latency ms" not in heads
    at = heads.index("default ms")
    cells = page.evaluate(
        f"{ROWS}.map((row) => [...row.cells].slice({at}, {at + 2}).map((one) => one.innerText))"
    )
    assert heads[at + 1] == "tuned ms" and cells == [["", ""], ["0.75", "0.5"]]
    page.evaluate(f"{ROWS}[1].click()")
    assert "0.5 ms, error 0.002" in page.evaluate(f"{PANEL}.innerText")


def test_every_column_sorts_both_ways(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    heads = page.evaluate("[...document.querySelectorAll('#tasks thead th')].map((head) => head.innerText)")
    assert heads[:4] == ["model", "precision", "target", "status"] and len(heads) == 13
    assert page.evaluate(
        "[...document.querySelectorAll('#tasks thead th')].every((head) => head.scope === 'col')"
    )
    for at, name in enumerate(heads):
        values = []
        for _ in range(2):
            page.evaluate(f"document.querySelectorAll('#tasks thead button')[{at}].click()")
            values.append(page.evaluate(f"{ROWS}.map((row) => row.cells[{at}].innerText)"))
        sort = f"document.querySelectorAll('#tasks thead th')[{at}].getAttribute('aria-sort')"
        assert page.evaluate(sort) in ("ascending", "descending"), name
        full = [[value for value in one if value] for one in values]
        assert full[0] == full[1][::-1] or len(set(full[0])) < len(full[0]), name
        assert sorted(values[0]) == sorted(values[1]) and (
            len(set(values[0])) == 1 or values[0] != values[1]
        ), name
    errors = page.evaluate(
        "(() => { document.querySelectorAll('#tasks thead button')[4].click();"
        f" return {ROWS}.map((row) => row.cells[4].innerText).filter(Boolean).map(Number); }})()"
    )
    assert len(errors) > 5 and errors == sorted(errors, reverse=True)


def test_text_status_and_every_axis_filter_table_and_grid(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    fill(page, ".filters input", "TAKE care")
    assert page.evaluate(COUNT) == "1 of 24 tasks" and page.evaluate(
        f"{ROWS}[0].innerText.includes('refused')"
    )
    assert page.evaluate("document.querySelectorAll('#grid td.cell').length") == 1
    page.evaluate("[...document.querySelectorAll('.filters button')].at(-1).click()")
    assert page.evaluate(COUNT) == "24 tasks" and page.evaluate("document.activeElement.type") == "search"
    for axis, values in (("precision", 4), ("target", 2), ("model", 3)):
        select = f"select[aria-label={axis}]"
        assert page.evaluate(f"document.querySelector('{select}').length") == values + 1
        fill(page, select, "0", "change")
        assert page.evaluate(f"{ROWS}.length") == 24 // values
        fill(page, select, "", "change")
    button = "[...document.querySelectorAll('.part')].find((one) => one.innerText.includes('refused'))"
    page.evaluate(f"{button}.click()")
    pressed = f"{button}.getAttribute('aria-pressed')"
    assert page.evaluate(f"{ROWS}.length") == 1 and page.evaluate(pressed) == "true"
    chosen = "document.querySelector('select[aria-label=status]').selectedOptions[0].text"
    assert page.evaluate(chosen) == "refused"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(COUNT) == "24 tasks" and page.evaluate(pressed) == "false"
    fill(page, ".filters input", "no such task")
    assert page.evaluate(f"{ROWS}.length") == 1 and "no task is left" in page.evaluate(f"{ROWS}[0].innerText")


def test_the_grid_has_a_cell_for_each_task_with_word_and_figure(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    cells = "[...document.querySelectorAll('#grid td.cell')]"
    assert page.evaluate(f"{cells}.length") == 24
    assert page.evaluate("[...document.querySelectorAll('#grid tbody th')].map((one) => one.innerText)") == [
        f"network-{number:03d}" for number in range(3)
    ]
    for figure in page.evaluate("[...document.querySelectorAll('#grid option')].map((one) => one.text)"):
        fill(page, "#grid select", figure, "change")
        assert page.evaluate(
            f"{cells}.every((cell) => /agree|converted|refused|[a-z]+/.test(cell.innerText))"
        ), figure
    page.evaluate(f"{cells}[1].querySelector('button').click()")
    assert page.evaluate(
        f"!{PANEL}.hidden && {PANEL}.querySelector('h2').innerText === 'network-000/bf16-sm89'"
    )


def test_the_details_open_and_close_by_keyboard(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    page.evaluate(f"{ROWS}.find((row) => row.innerText.includes('refused')).focus()")
    page.press("Enter")
    assert page.evaluate(f"document.activeElement === {PANEL}.querySelector('h2')")
    text = page.evaluate(f"{PANEL}.innerText")
    assert "no importer for operator mmcv::TemporalShift" in text and "load a library that has it" in text
    assert (
        "take care" in text and "node '/shift' (mmcv::TemporalShift)" in text and "trtsmith convert" in text
    )
    page.press("Escape")
    assert page.evaluate(f"{PANEL}.hidden && document.activeElement.getAttribute('aria-selected') === 'true'")
    assert page.evaluate("location.hash") == ""


def test_problems_of_one_kind_stand_together_and_show_their_tasks(page: Chromium, tmp_path: Path) -> None:
    records = [
        record(f"net-{number}", TaskStatus.REFUSED, warnings=(f"the engine no longer reads input {number}",))
        for number in range(5)
    ]
    drawn = report()
    drawn["verdict"] |= {"status": "not comparable", "reason": "output 'y' draws random numbers"}
    unknown = record("unknown", TaskStatus.NOT_COMPARABLE, report=drawn, problems=())
    write_results(tmp_path, [*records, unknown], warnings=("sizes are guessed:\nnet-1: x=1x3",))
    page.open(tmp_path / "index.html")
    assert "sizes are guessed:\n\nnet-1: x=1x3" in page.evaluate(
        "document.querySelector('#summary .note').innerText"
    )
    kinds = "[...document.querySelectorAll('#kinds tbody tr')]"
    assert page.evaluate(
        f"{kinds}.map((row) => row.innerText.split('\\t').slice(0, 3).map((one) => one.trim()))"
    ) == [
        ["problem", "no importer for operator mmcv::TemporalShift", "5"],
        ["warning", "the engine no longer reads input 0", "5"],
        ["not comparable", "output 'y' draws random numbers", "1"],
    ]
    page.evaluate(f"{kinds}[1].click()")
    assert page.evaluate(COUNT) == "5 of 6 tasks" and "input 0" in page.evaluate(
        "document.querySelector('.only').innerText"
    )
    page.evaluate("[...document.querySelectorAll('.filters button')].at(-1).click()")
    assert page.evaluate(COUNT) == "6 tasks" and page.evaluate("document.querySelector('.only').hidden")


def test_files_are_linked_relative_to_the_folder(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    page.evaluate(f"{ROWS}[0].click()")
    links = page.evaluate(f"[...{PANEL}.querySelectorAll('a')].map((one) => one.getAttribute('href'))")
    assert links == [
        "./network-000/bf16-sm86/report.html", "./network-000/bf16-sm86/model.plan", "./network-000/bf16-sm86/report.html",
        "./network-000/bf16-sm86/record.json",
    ]  # fmt: skip


def test_one_goes_through_the_tasks_by_keys_and_buttons(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    page.evaluate(f"{ROWS}[0].focus()")
    for key, at in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("ArrowUp", 0), ("ArrowUp", 0)):
        page.press(key)
        assert page.evaluate(f"{ROWS}.indexOf(document.activeElement)") == at
    page.press("Enter")
    shown = [page.evaluate(f"{PANEL}.querySelector('h2').innerText")]
    for button in ("Next", "Next", "Previous", "Previous", "Previous"):
        page.evaluate(
            f"[...{PANEL}.querySelectorAll('button')].find((one) => one.innerText === '{button}').click()"
        )
        shown.append(page.evaluate(f"{PANEL}.querySelector('h2').innerText"))
    names = [f"network-000/bf16-sm{number}" for number in (86, 89)]
    assert shown == [*names, "network-000/fp16-sm86", names[1], names[0], names[0]]


def test_long_lists_are_cut_and_the_worst_output_stays(page: Chromium, tmp_path: Path) -> None:
    long = report(outputs=300)
    long["verdict"]["comparisons"][250] |= {"used": None, "relative": None, "agrees": False}
    long["engine"]["plugin_layers"] = [f"/layer{number}" for number in range(300)]
    problems = tuple(replace(PROBLEM, where=f"node {number}") for number in range(50))
    cut = record("refused", TaskStatus.REFUSED, problems=problems)
    write_results(tmp_path, [record("long", TaskStatus.DISAGREE, report=long), cut])
    page.open(tmp_path / "index.html")
    assert "beyond" in page.evaluate(f"{ROWS}[0].innerText")
    page.evaluate(f"{ROWS}[0].click()")
    text = page.evaluate(f"{PANEL}.innerText")
    assert "y250" in text and text.count("and 280 more in record.json") == 2 and "/layer19" in text
    page.evaluate(f"{ROWS}[1].click()")
    text = page.evaluate(f"{PANEL}.innerText")
    assert "node 19" in text and "and 30 more in record.json" in text


def test_a_status_says_what_it_rests_on(page: Chromium, tmp_path: Path) -> None:
    engine = report()
    engine["verdict"] |= {"engine_run": True, "basis": []}
    write_results(
        tmp_path, [record("graph", TaskStatus.AGREE), record("whole", TaskStatus.AGREE, report=engine)]
    )
    page.open(tmp_path / "index.html")
    badges = (
        "[...document.querySelectorAll('#tasks tbody .badge')].map((one) => [one.innerText, one.className])"
    )
    assert page.evaluate(badges) == [["agree (graph only)", "badge fair"], ["agree", "badge good"]]
    classes = "[...document.querySelectorAll('{}')].map((one) => one.className)"
    assert page.evaluate(classes.format(".stripe span")) == ["good", "fair"]
    assert page.evaluate(classes.format(".part")) == ["part fair"]
    page.evaluate(f"{ROWS}[0].click()")
    text = page.evaluate(f"{PANEL}.innerText")
    assert "agree (graph only): largest relative error" in text
    assert "the engine itself was not run: there is no NVIDIA GPU here" in text


def test_a_task_has_an_address(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    page.go_to("#task=network-001%2Ffp16-sm89")
    assert page.evaluate(f"{PANEL}.querySelector('h2').innerText") == "network-001/fp16-sm89"


def test_names_are_text_wherever_they_stand(page: Chromium, tmp_path: Path) -> None:
    alone = [record(name, status) for name, status in zip(HOSTILE_NAMES, TaskStatus, strict=False)]
    kept: dict[str, Any] = {"status": TaskStatus.DISAGREE, "warnings": HOSTILE_NAMES}
    variants = [
        record(f"{name}/v", variant={HOSTILE_NAMES[0]: name}, versions={name: name}, **kept)
        for name in HOSTILE_NAMES
    ]
    write_results(tmp_path, [*alone, *variants], title=HOSTILE_NAMES[0])
    page.open(tmp_path / "index.html")
    for at in range(len(alone) + len(variants)):
        page.evaluate(f"{ROWS}[{at}].click()")
    assert page.evaluate("document.title") == HOSTILE_NAMES[0]
    assert page.evaluate("document.querySelectorAll('img, main script, iframe, object').length") == 0
    text = page.evaluate("document.querySelector('#tasks').innerText")
    assert HOSTILE_NAMES[0] in text and "two\\nlines and a tab\\t" in text and "عربي نموذج" in text
    assert "\\u202eright to left" in text and "\x1b" not in text
    for link in page.evaluate("[...document.querySelectorAll('.details a')].map((one) => one.href)"):
        assert link.startswith("file://")


def test_a_thousand_tasks_do_not_freeze_it(page: Chromium, tmp_path: Path) -> None:
    write_results(tmp_path, zoo(125))
    page.open(tmp_path / "index.html")
    assert page.evaluate(COUNT) == "1,000 tasks"
    # 0.2 s, 20 ms and 70 ms on two idle cores
    assert page.evaluate("performance.getEntriesByType('navigation')[0].domComplete") < 3000
    timed = "(() => {{ const at = performance.now(); {0}; document.body.offsetHeight; return performance.now() - at; }})()"
    for at in range(13):
        assert (
            page.evaluate(timed.format(f"document.querySelectorAll('#tasks thead button')[{at}].click()"))
            < 1000
        )
    field = "document.querySelector('.filters input')"
    typed = f"{field}.value = 'network-1'; {field}.dispatchEvent(new Event('input'))"
    assert page.evaluate(timed.format(typed)) < 1000
    assert page.evaluate(COUNT) == "200 of 1,000 tasks"


CONTRASTS = """(() => {
  const part = (one) => (one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const light = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(part);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const found = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(found)) return found;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll(".badge, td, th, p, .part, .part b, label")].filter((one) => one.innerText)
    .map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    });
})()"""


def test_text_stands_out_in_light_and_dark(page: Chromium, folder: Path) -> None:
    """A contrast of 4.5 at least (WCAG 2, 1.4.3)."""
    page.open(folder / "index.html")
    for dark in (False, True):
        page.look(1280, 900, dark=dark)
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 300 and min(contrasts) >= 4.5


def test_it_fits_a_narrow_window_and_paper(page: Chromium, folder: Path) -> None:
    page.open(folder / "index.html")
    page.look(390, 844)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.look(794, 1123, paper=True)
    assert page.evaluate("getComputedStyle(document.querySelector('.filters')).display") == "none"
    assert page.evaluate("document.querySelector('#tasks thead button').getClientRects().length") == 1
    assert page.evaluate("document.querySelector('#tasks table').scrollWidth <= innerWidth")
    page.pdf(folder.parent / "page.pdf")
    assert (folder.parent / "page.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_of_a_difference(page: Chromium, tmp_path: Path) -> None:
    old = [
        record("same"),
        record("refused"),
        record("slow", bench=times(1.0)),
        *(record(name) for name in HOSTILE_NAMES),
    ]
    new = [
        record("same", versions=VERSIONS | {"onnx": "1.24"}), record("refused", TaskStatus.REFUSED),
        record("slow", bench=times(2.0)), *(record(name, warnings=HOSTILE_NAMES) for name in HOSTILE_NAMES), record("new"),
    ]  # fmt: skip
    write_pair(tmp_path, old, new)
    path = tmp_path / "diff.html"
    path.write_text(diff_page(diff_results(load_results(tmp_path / "old"), load_results(tmp_path / "new"))))
    page.open(path)
    cards = page.evaluate("[...document.querySelectorAll('.card')].map((one) => one.innerText)")
    assert [card.split() for card in cards] == [
        ["11", "worse"], ["0", "better"], ["0", "different"], ["1", "new"], ["0", "gone"], ["1", "same"],
    ]  # fmt: skip
    versions = page.evaluate("document.querySelector('#versions tbody').innerText")
    assert " ".join(versions.split()) == "onnx 1.23.2 1.23.2, 1.24"
    assert page.evaluate(f"{ROWS}.length") == 12
    fill(page, "select[aria-label=what]", "latency", "change")
    assert page.evaluate(f"{ROWS}.map((row) => row.cells[1].innerText)") == ["slow"]
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
