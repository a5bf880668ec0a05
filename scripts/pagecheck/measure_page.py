"""Measures the page of a model of 10,000 nodes in headless Chromium, and prints the figures as JSON.

    python scripts/pagecheck/measure_page.py                     # of 10,000 nodes
    python scripts/pagecheck/measure_page.py --nodes 30000 --page big.html

The page is made as `trtsmith convert --html` makes it, of a network that is rewritten and planned and not built, with
made-up errors and times for every node. bytes: of the file. made_s: making it, with the layout. first_contentful_paint_ms:
as the browser reports it. ready_ms: until every script has run. search_ms: the slowest of some searches, result list and
drawing request included. frames_ms: between frames, and paint_ms: drawing one, while the network is dragged with all of it
in sight, with some hundred nodes in sight, and with labels. Exit code 1 where a limit does not hold:
5 MB, 2 s, 100 ms.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import onnx  # noqa: E402

from bench_rewrite import machine  # noqa: E402
from pagecheck.chromium import Chromium, find_chromium  # noqa: E402
from pagecheck.large_network import large_network  # noqa: E402
from pagecheck.sample_page import sample_document  # noqa: E402
from trtsmith.converter.pages.conversion_page import conversion_page  # noqa: E402

LIMITS = {"bytes": 5_000_000, "first_contentful_paint_ms": 2000, "search_ms": 100}

SEARCHES = (
    "matmul",
    "layers.7/",
    "skiplayer rewritten",
    "softmax",
    "e",
    "no such node",
    "/model/encoder/layers.311/mlp",
)

_SEARCH = """(texts) => texts.map((text) => {
  const field = document.querySelector('.network .tools input');
  const begun = performance.now();
  field.value = text;
  field.dispatchEvent(new Event('input'));
  document.body.offsetHeight;  // layout of the list of hits belongs to it
  return performance.now() - begun;
})"""

# The entry comes some time after the frame, on a busy machine after several.
_PAINTED = """() => new Promise((done) => {
  const look = () => performance.getEntriesByName('first-contentful-paint').length
    ? requestAnimationFrame(done) : requestAnimationFrame(look);
  look();
})"""

_PAN = """(clicks) => new Promise((done) => {
  const canvas = document.querySelector('.canvas canvas');
  const box = canvas.getBoundingClientRect();
  const at = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind,
    {pointerId: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true}));
  canvas.setPointerCapture = () => {};
  const buttons = [...document.querySelectorAll('.network .tools button')];
  buttons.find((one) => one.textContent === 'All').click();
  for (let i = 0; i < clicks; i += 1) buttons.find((one) => one.textContent === '+').click();
  const gaps = [];
  let count = 0, before = 0;
  at('pointerdown', 400, 300);
  const step = (now) => {
    if (before) gaps.push(now - before);
    before = now;
    count += 1;
    at('pointermove', 400 + 60 * Math.sin(count / 9), 300 + 40 * Math.cos(count / 7));
    if (count < 90) requestAnimationFrame(step);
    else { at('pointerup', 400, 300); done(gaps); }
  };
  requestAnimationFrame(step);
})"""


def measure(page: Path) -> dict[str, Any]:
    """The figures of a page that lies in a file."""
    with Chromium() as browser:
        browser.open(page)
        browser.evaluate(f"({_PAINTED})()")
        paints = browser.evaluate(
            "Object.fromEntries(performance.getEntriesByType('paint').map((one) => [one.name, one.startTime]))"
        )
        ready = browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        searches = browser.evaluate(f"({_SEARCH})({json.dumps(SEARCHES)})")
        browser.evaluate(f"({_SEARCH})([''])")
        frames = {
            name: _summary(browser.evaluate(f"({_PAN})({clicks})"))
            for name, clicks in (("all in sight", 0), ("some hundred in sight", 5), ("with labels", 9))
        }
        return {
            "bytes": page.stat().st_size,
            "first_contentful_paint_ms": round(paints["first-contentful-paint"], 1),
            "ready_ms": round(ready, 1),
            "search_ms": round(max(searches), 1),
            "frames_ms": frames,
            "complaints": browser.complaints(),
            "requests": browser.requests(),
        }


def _summary(gaps: list[float]) -> dict[str, float]:
    ordered = sorted(gaps)
    return {
        "median": round(ordered[len(ordered) // 2], 1),
        "p95": round(ordered[int(len(ordered) * 0.95)], 1),
        "max": round(ordered[-1], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--page", type=Path, help="keep the page here")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    if find_chromium() is None:
        print("no chromium or chrome is on the PATH", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "network.onnx"
        onnx.save(large_network(options.nodes), model)
        begun = time.perf_counter()
        text = conversion_page(sample_document(model))
        made = time.perf_counter() - begun
        page = options.page or Path(folder) / "page.html"
        page.write_text(text, encoding="utf-8")
        figures = {"machine": machine(), "nodes": options.nodes, "made_s": round(made, 2), **measure(page)}
    print(json.dumps(figures, indent=1))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    slow = [name for name, limit in LIMITS.items() if figures[name] > limit]
    return 1 if slow or figures["complaints"] or figures["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
