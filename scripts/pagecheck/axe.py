"""Checks the open page's accessibility with axe-core.

axe-core (MPL 2.0) is 570 kB of JavaScript that nothing else here needs, so it is fetched and not kept: out of a wheel that
has it, pinned by hash, because pip is there wherever tests run, and npm is not.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from envsetup.wheels import fetch
from pagecheck.chromium import Chromium

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "axe"
VERSION = "0.1.8"
"""Of the wheel; it has axe-core 4.12.1."""
PIN = (
    f"axe-playwright-python=={VERSION}"
    " --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"
)

RUN = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.flatMap(({id, nodes}) =>
    nodes.map((node) => id + ": " + node.html.slice(0, 200) + ": " + node.failureSummary.split("\\n").at(1).trim())))"""


def violations(page: Chromium) -> list[str]:
    """Rule, element and reason of each violation, by all rules of axe-core: WCAG 2 A and AA, and good practice."""
    page.evaluate(_axe() + "; 0")
    found: list[str] = page.evaluate(RUN)
    return found


@cache
def _axe() -> str:
    return (fetch(VERSION, (PIN,), CACHE) / "axe_playwright_python" / "axe.min.js").read_text(
        encoding="utf-8"
    )
