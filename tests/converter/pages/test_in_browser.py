"""Pages in headless Chromium: models' texts are shown but never run, nothing is requested, and everything works."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper as oh

from pagecheck.chromium import NAMES, Chromium
from pagecheck.large_network import large_network
from pagecheck.sample_page import sample_document
from tests.converter.models import parsed, save, value, written
from tests.converter.pages.everything import EVERYTHING
from trtsmith.converter.pages.conversion_document import PageContent, conversion_document
from trtsmith.converter.pages.network.node_values import pictured
from trtsmith.converter.pages.writing import conversion_page

pytestmark = pytest.mark.program(*NAMES)

Opened = Callable[[dict[str, Any]], Chromium]

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "a\nb\tc \u202eevil",
    '"><svg onload=alert(3)>',
    "x" * 10_000,
    "__proto__",
    "${alert(4)}",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture
def opened(browser: Chromium, tmp_path: Path) -> Iterator[Opened]:
    """Opens the page of a document. In the end it has asked for nothing, and no console has complained."""

    def open_page(document: dict[str, Any]) -> Chromium:
        page = tmp_path / "page.html"
        page.write_text(conversion_page(document), encoding="utf-8")
        browser.open(page)
        browser.settle()
        return browser

    yield open_page
    browser.look(1280, 900)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.dialogs() == []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a model whose nodes, values, operators, attributes and inputs have hostile names."""
    nodes, before = [], "x"
    for index, name in enumerate(HOSTILE):
        made, after = f"{name} {index}", f"{name} {index}'"
        nodes.append(oh.make_node("Inverse", [before], [made], name=name, domain="com.microsoft"))
        nodes.append(oh.make_node(name[:50], [made], [after], name=f"{name}!", domain="<b>", key=name))
        before = after
    path = tmp_path_factory.mktemp("hostile") / "hostile.onnx"
    save(path, nodes, [value("x", (2, 2, 2))], [value(before, (2, 2, 2))])
    document = sample_document(path)
    document["title"] = HOSTILE[0]
    document["command"] = ["trtsmith", "convert", HOSTILE[0], HOSTILE[2]]
    document["warnings"] = [*document["warnings"], *HOSTILE]
    document["files"] = {HOSTILE[1]: HOSTILE[3]}
    return document


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("large") / "large.onnx"
    onnx.save(large_network(1500), path)
    return sample_document(path)


def hits(browser: Chromium) -> str:
    return str(browser.evaluate("document.querySelector('.network .count').textContent"))


def search(browser: Chromium, text: str) -> None:
    browser.evaluate(
        "document.querySelector('.network .tools input').focus(); document.activeElement.select()"
    )
    browser.press("Escape")
    browser.type(text)


def fill(browser: Chromium, field: str, text: str) -> None:
    browser.evaluate(
        f"(() => {{ const field = document.querySelector({json.dumps(field)}); field.value = {json.dumps(text)}; "
        "field.dispatchEvent(new Event('input')); })()"
    )


def choose(browser: Chromium, menu: str, text: str) -> None:
    browser.evaluate(
        f"(() => {{ const menu = document.querySelector({json.dumps(menu)}); "
        f"menu.selectedIndex = [...menu.options].findIndex((one) => one.text === {json.dumps(text)}); "
        "menu.dispatchEvent(new Event('change')); })()"
    )


def picture(browser: Chromium) -> str:
    browser.settle()
    return str(browser.evaluate("document.querySelector('.canvas canvas').toDataURL()"))


def test_hostile_names_are_shown_and_never_run(opened: Opened, hostile: dict[str, Any]) -> None:
    browser = opened(hostile)
    assert browser.evaluate("document.querySelector('h1').firstChild.textContent") == HOSTILE[0]
    assert (
        browser.evaluate("document.querySelectorAll('img, svg:not(.chart), iframe, script[src]').length") == 0
    )
    body = browser.evaluate("document.body.innerText")
    assert "<img src=x onerror=alert(2)>" in body
    assert "a\\nb\\tc \\u202eevil" in body and "\u202e" not in body
    assert max(len(line) for line in body.splitlines()) < 5000
    # every node's details, by which attributes, values and reasons are shown
    names = browser.evaluate(
        """(() => { const rows = [...document.querySelectorAll('#nodes tbody tr')];
        return rows.map((row) => { row.click(); return document.querySelector('.details h3').textContent; }); })()"""
    )
    assert len(names) == 2 * len(HOSTILE) and names[0] == HOSTILE[0]
    assert "key='</script>" in browser.evaluate(
        "document.querySelectorAll('#nodes tbody tr')[1].click(), document.querySelector('.details').innerText"
    )
    for word in ("script", "alert", "__proto__"):
        search(browser, word)
        assert "hit" in hits(browser)


def test_scripts_and_requests_of_others_are_refused(
    browser: Chromium, tmp_path: Path, hostile: dict[str, Any]
) -> None:
    page = tmp_path / "page.html"
    page.write_text(conversion_page(hostile), encoding="utf-8")
    browser.open(page)
    browser.evaluate(
        """(() => { const script = document.createElement('script'); script.textContent = 'window.taken = 1';
        document.body.append(script); const image = new Image(); image.src = 'https://example.org/a.png';
        document.body.append(image); })()"""
    )
    assert browser.evaluate("typeof window.taken") == "undefined"
    assert browser.evaluate("fetch('https://example.org/').then(() => 'came', () => 'refused')") == "refused"
    refused = [line for line in browser.complaints() if "Content Security Policy" in line]
    assert all(
        any(what in line for line in refused) for what in ("inline script", "a.png", "Refused to connect")
    ), refused


def test_search_finds_by_name_operator_route_and_rule(opened: Opened, large: dict[str, Any]) -> None:
    browser = opened(large)
    found = {"layers.7/norm": "1 hit", "com.microsoft::gelu": " hits", "rewritten": " hits", "zzz": "0 hits"}
    for text, wanted in found.items():
        search(browser, text)
        assert wanted in hits(browser), text
    search(browser, "softmax")
    first = int(hits(browser).split()[0].replace(",", ""))
    before = picture(browser)
    browser.press("Enter")
    browser.press("Enter")
    assert hits(browser) == f"2 of {first}"
    assert "layers.1/attention/Softmax" in browser.evaluate(
        "document.querySelector('.details h3').textContent"
    )
    assert picture(browser) != before


def test_a_click_on_a_node_tells_of_it(opened: Opened, tmp_path: Path) -> None:
    text = "(float[2,2,2] x) => (float[2,2,2] y) { [inv] y = com.microsoft.Inverse (x) }"
    path = written(tmp_path / "m.onnx", text)
    browser = opened(sample_document(path))
    browser.evaluate("document.getElementById('network').scrollIntoView()")
    box = browser.evaluate("JSON.stringify(document.querySelector('.canvas').getBoundingClientRect())")
    x, y = ((one := json.loads(box))["left"] + one["width"] / 2, one["top"] + one["height"] / 2)
    browser.click(x, y)  # the node in the middle, between input and output
    details = browser.evaluate("document.querySelector('.details').innerText")
    assert details.split("\n")[1:2] == ["inv"] and "MatrixInverse" in details and "plugin" in details
    assert "custom operators with an alias become plugin nodes" in details
    browser.press("Escape")
    assert browser.evaluate("document.querySelector('.details').hidden") is True


def test_the_network_is_drawn_moved_and_zoomed(opened: Opened, large: dict[str, Any]) -> None:
    browser = opened(large)
    browser.evaluate(
        "document.getElementById('network').scrollIntoView(); document.querySelector('.canvas canvas').focus()"
    )
    colours = browser.evaluate(
        """(() => { const canvas = document.querySelector('.canvas canvas');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let at = 0; at < pixels.length; at += 4) seen.add(pixels.slice(at, at + 3).join());
        return seen.size; })()"""
    )
    assert colours > 10
    seen = [picture(browser)]
    browser.mouse("mouseWheel", 600, 400, deltaX=0, deltaY=-600)
    seen.append(picture(browser))
    for key in ("ArrowLeft", "+", "ArrowUp"):
        browser.press(key)
        seen.append(picture(browser))
    browser.mouse("mousePressed", 600, 400, button="left", clickCount=1)
    browser.mouse("mouseMoved", 500, 300, button="left", buttons=1)
    browser.mouse("mouseReleased", 500, 300, button="left", clickCount=1)
    seen.append(picture(browser))
    browser.press("0")
    assert len(set(seen)) == len(seen)
    assert picture(browser) == seen[0]


def test_colours_and_the_legend(opened: Opened, large: dict[str, Any]) -> None:
    browser = opened(large)
    modes = browser.evaluate("[...document.querySelector('.network select').options].map((one) => one.text)")
    assert modes == ["route", "type", "rule", "error", "time", "operator"]
    before = picture(browser)
    legend = "document.querySelectorAll('.legend button')"
    counts = browser.evaluate(f"[...{legend}].map((one) => one.textContent)")
    assert sum(int(one.split()[-1].replace(",", "")) for one in counts) == large["cards"][0][0]
    browser.evaluate(f"{legend}[1].click()")
    assert browser.evaluate(f"{legend}[1].getAttribute('aria-pressed')") == "true"
    assert picture(browser) != before
    choose(browser, ".network select", "error")
    assert browser.evaluate(f"{legend}[0].textContent").startswith("up to ")


def test_tables_are_filtered_and_sorted_and_draw_what_is_in_sight(
    opened: Opened, large: dict[str, Any]
) -> None:
    browser = opened(large)
    rows = "[...document.querySelectorAll('#nodes tbody tr:not([aria-hidden])')]"
    assert browser.evaluate(f"{rows}.length") < 120
    count = "document.querySelector('#nodes .count').textContent"
    total = browser.evaluate(count)
    fill(browser, "#nodes input", "softmax")
    assert browser.evaluate(count).endswith(f" of {total}")
    assert browser.evaluate(f"{rows}.every((row) => row.textContent.includes('Softmax'))") is True
    fill(browser, "#nodes input", "")
    heads = browser.evaluate("[...document.querySelectorAll('#nodes th')].map((one) => one.textContent)")
    at = heads.index("error")
    browser.evaluate(f"document.querySelectorAll('#nodes th button')[{at}].click()")
    assert (
        browser.evaluate(f"document.querySelectorAll('#nodes th')[{at}].getAttribute('aria-sort')")
        == "descending"
    )
    values = browser.evaluate(f"{rows}.slice(0, 20).map((row) => Number(row.cells[{at}].textContent))")
    assert values == sorted(values, reverse=True) and values[0] > values[-1]
    choose(browser, "#nodes select", "Softmax")
    assert browser.evaluate(f"{rows}.every((row) => row.cells[1].textContent === 'Softmax')") is True


def test_light_dark_and_paper(opened: Opened, large: dict[str, Any]) -> None:
    browser = opened(large)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(paper)
    drawn = picture(browser)
    browser.evaluate("document.querySelector('[data-theme-button] button').click()")
    assert browser.evaluate(paper) != light and picture(browser) != drawn
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate(paper) == light and picture(browser) == drawn
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate(paper) != light
    browser.evaluate("document.querySelector('[data-theme-button] button').click()")
    assert browser.evaluate(paper) == light


def test_the_chart_leads_to_its_nodes(opened: Opened, large: dict[str, Any]) -> None:
    browser = opened(large)
    wrong = [one for one in large["errors"] if one[3]]
    assert browser.evaluate("document.querySelectorAll('.chart .dot.wrong').length") == len(wrong) > 0
    browser.evaluate("document.querySelector('.chart .dot.wrong').dispatchEvent(new MouseEvent('click'))")
    assert (
        browser.evaluate("document.querySelector('.details').innerText.includes('allowed 1.0e-03')") is True
    )


def test_every_section_is_filled_where_there_is_something_to_show(
    opened: Opened, large: dict[str, Any]
) -> None:
    browser = opened({**large, **EVERYTHING})
    assert browser.evaluate("document.querySelectorAll('main > section[hidden]').length") == 0
    shown = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('main > section')].map((one) => [one.id, one.innerText]))"
    )
    wanted = {
        "problems": ["w", "f"],
        "outputs": ["features", "too far off", "nan", "∞", "taken for token ids", "fp16"],
        "work": ["contrib-norm", "it splits", "axes", "int64 in the engine", "--freeze k=3"],
        "depth": ["this node is wrong by itself", "off by much", "do so", "m.located"],
        "time": ["a remark", "2 streams", "no graph", "Gate", "50.0%", "not installed"],
        "precision": ["9 nodes in float16", "a norm"],
        "about": ["sha256:00", "1.5 s"],
    }
    assert [(id_, text) for id_, texts in wanted.items() for text in texts if text not in shown[id_]] == []
    browser.evaluate("document.querySelector('#precision button.plain').click()")  # by what it stands for
    details = browser.evaluate("document.querySelector('.details h3').textContent")
    assert details.startswith("/model/encoder/layers.0/")


@pytest.mark.parametrize("kind", ["convert", "verify"])
def test_what_could_not_be_done_has_a_page_with_the_problems(opened: Opened, kind: str) -> None:
    problem = {
        "what": "no importer for <b>",
        "where": "node 'x'",
        "expected": "an operator",
        "fix": "--plugins FILE",
    }
    report = {"converted" if kind == "convert" else "verified": False, "problems": [problem]}
    browser = opened(conversion_document(PageContent(kind, "m.onnx", (), report, {})))
    assert "no importer for <b>" in browser.evaluate("document.getElementById('problems').innerText")
    shown = browser.evaluate(
        "[...document.querySelectorAll('main > section:not([hidden])')].map((one) => one.id)"
    )
    assert shown == ["summary", "problems", "about"]
    links = browser.evaluate("[...document.querySelectorAll('.bar nav a')].map((one) => one.textContent)")
    assert links == ["Problems", "Versions and files"]


@pytest.mark.parametrize("table", ["nodes", "depth"])
def test_a_row_that_is_picked_leads_to_the_network(opened: Opened, large: dict[str, Any], table: str) -> None:
    browser = opened(large)
    browser.evaluate(f"document.querySelector('#{table} tr.pickable').scrollIntoView()")
    top = "document.getElementById('network').getBoundingClientRect().top"
    assert browser.evaluate(top) < -100
    browser.evaluate(f"document.querySelector('#{table} tr.pickable').focus()")
    browser.press("Enter")
    assert 0 <= browser.evaluate(top) < 100
    assert browser.evaluate("document.querySelector('.details h3').textContent") != ""
    assert browser.evaluate("document.activeElement === document.querySelector('.details h3')")
    browser.press("Escape")
    assert browser.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"


def test_long_names_do_not_widen_a_page_on_paper(opened: Opened) -> None:
    names = ["a_node_with_" * 7 + end for end in "12"]
    group = {"rule": "r", "what": "w", "notes": [], "numerics": [], "ops": {"Op": 2}, "count": 2}
    content = PageContent("convert", "m.onnx", (), {"converted": True}, {})
    browser = opened(conversion_document(content) | {"work": [{**group, "nodes": names}]})
    browser.look(720, 1000, paper=True)
    assert browser.evaluate("document.documentElement.scrollWidth") == 720


@pytest.mark.parametrize(("width", "below"), [(400, True), (1280, False)])
def test_what_is_told_of_a_node_covers_no_network(
    opened: Opened, large: dict[str, Any], width: int, below: bool
) -> None:
    """In a narrow window it stands below, as wide as the network; else beside."""
    browser = opened(large)
    browser.look(width, 800)
    browser.evaluate("document.getElementById('network').scrollIntoView()")
    browser.evaluate("document.querySelector('#nodes tr.pickable').click()")
    browser.settle()
    boxes = """JSON.stringify([...document.querySelectorAll('.canvas, .details')].map((one) => {
        const { left, right, top, bottom } = one.getBoundingClientRect(); return { left, right, top, bottom }; }))"""
    canvas, details = json.loads(browser.evaluate(boxes))
    assert details["bottom"] > details["top"] + 50 and canvas["bottom"] > canvas["top"] + 200
    if below:
        assert details["top"] >= canvas["bottom"] - 1
        assert (details["left"], details["right"]) == (canvas["left"], canvas["right"])
        assert browser.evaluate("document.documentElement.scrollWidth") == width
    else:
        assert details["left"] >= canvas["right"] - 1 and details["top"] == canvas["top"]


def test_a_narrow_window_holds_the_menus_and_breaks_no_type(opened: Opened, hostile: dict[str, Any]) -> None:
    browser = opened(hostile)
    browser.look(400, 800)
    assert browser.evaluate("document.documentElement.scrollWidth") == 400
    lines = """[...document.querySelectorAll('#nodes td')].filter((one) => one.textContent === 'float32').map((one) => {
        const text = document.createRange(); text.selectNodeContents(one); return text.getClientRects().length; })"""
    assert set(browser.evaluate(lines)) == {1}


def test_a_table_of_many_nodes_does_not_hide_what_is_below_it(opened: Opened, tmp_path: Path) -> None:
    body = " ".join(f"v{n + 1} = Relu (v{n})" for n in range(200))
    network = pictured(parsed(tmp_path / "m.onnx", f"(float[2] v0) => (float[2] v200) {{ {body} }}"))
    browser = opened(conversion_document(PageContent("convert", "m.onnx", (), {}, {}, network)))
    height = "document.querySelector('#nodes .scroll').clientHeight"
    assert browser.evaluate(height) < browser.evaluate("innerHeight")
    browser.look(1280, 900, paper=True)
    assert browser.evaluate(height) > 200 * 10


def test_a_command_line_breaks_between_its_words(opened: Opened) -> None:
    words = ["trtsmith", "convert", "a file's.onnx", *["--shapes", "x=1x2"] * 20, "y" * 200]
    document = conversion_document(PageContent("convert", "m.onnx", words, {"converted": True}, {}))
    browser = opened(document)
    assert browser.evaluate("document.querySelector('.command').textContent") == shlex.join(words)
    for width in range(300, 400, 7):
        browser.look(width, 800)
        lines = """[...document.querySelectorAll('.command .shell-word')].map((one) => {
            const text = document.createRange(); text.selectNodeContents(one); return text.getClientRects().length; })"""
        assert set(browser.evaluate(lines)[:-1]) == {1}
        assert browser.evaluate("document.documentElement.scrollWidth") == width
