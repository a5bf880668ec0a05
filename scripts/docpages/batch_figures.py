"""Makes the tables of pages in a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table

RECORDS = Path(__file__).resolve().parents[2] / "benchmarks"

Record = Mapping[str, Any]


def _read(name: str) -> Record:
    record: Record = json.loads((RECORDS / name).read_text(encoding="utf-8"))
    return record


def _place(record: Record) -> str:
    machine = record["machine"]
    return f"{machine['cores']} cores of an {machine['cpu']}, {machine['date']}"


def page() -> str:
    """What scripts/pagecheck/measure_page.py measured."""
    return render_page(_read("page.json"))


def render_page(record: Record) -> str:
    rows = [
        ("size of the file", f"{record['bytes'] / 1e6:.1f} MB", "5 MB"),
        ("first contentful paint", f"{record['first_contentful_paint_ms'] / 1e3:.2f} s", "2 s"),
        ("all scripts have run", f"{record['ready_ms'] / 1e3:.2f} s", ""),
        ("the slowest search", f"{record['search_ms']:.0f} ms", "100 ms"),
        ("making the page, layout and all", f"{record['made_s']:.1f} s", ""),
    ]
    head = f"{record['nodes']:,} nodes, headless Chromium, {_place(record)}."
    return f"{head}\n\n{markdown_table(('', 'measured', 'at most'), rows)}"
