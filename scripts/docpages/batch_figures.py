"""Makes the tables of what a batch adds to its conversions, of pages in a browser, and of refused networks cut down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table

RECORDS = Path(__file__).resolve().parents[2] / "benchmarks"

Record = Mapping[str, Any]

_WAYS = {
    "bare": "a pool of processes that calls the same worker, and nothing else",
    "local": "`trtsmith batch`",
    "ray": "`trtsmith batch` on a Ray of three local nodes, once it is up",
}


def _read(name: str) -> Record:
    record: Record = json.loads((RECORDS / name).read_text(encoding="utf-8"))
    return record


def _place(record: Record) -> str:
    machine = record["machine"]
    return f"{machine['cores']} cores of an {machine['cpu']}, {machine['date']}"


def batch() -> str:
    """What scripts/batchbench/bench_batch.py measured."""
    return render_batch(_read("batch.json"))


def render_batch(record: Record) -> str:
    runs, medians = record["runs"], record["medians"]
    rows = [
        (what, f"{medians[way].get('tasks_s', medians[way]['seconds']):.1f}", _more(record, way))
        for way, what in _WAYS.items()
    ]
    count = len(runs["bare"])
    hits = record["hits"]
    some, many = record["memory"]
    more = (many["peak_mib"] - some["peak_mib"]) * 1024 / (many["tasks"] - some["tasks"])
    return (
        f"{record['tasks']} small conversions, {record['jobs']} at a time, median of {count} rounds in turn, on "
        f"{_place(record)}.\n\n{markdown_table(('way', 'seconds', 'over the bare pool'), rows)}\n\n"
        f"{hits['tasks']:,} tasks that the cache has take {hits['from_cache']['seconds']:.1f} s, and "
        f"{hits['kept']['seconds']:.1f} s where their folders are there already. The driver takes at most "
        f"{some['peak_mib']:.0f} MiB for {some['tasks']:,} tasks and {many['peak_mib']:.0f} MiB for {many['tasks']:,}: "
        f"{more:.0f} KiB for each more, of {some['imports_mib']:.0f} MiB that its modules take."
    )


def _more(record: Record, way: str) -> str:
    return "" if way == "bare" else f"{round(100 * record['overhead'][way]):d} %"


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


def reductions() -> str:
    """What scripts/refusedmodels/bench_reduction.py measured."""
    return render_reductions(_read("reduction.json"))


def render_reductions(record: Record) -> str:
    found: dict[str, dict[bool, Record]] = {}
    for one in record["reductions"]:
        found.setdefault(one["fault"], {})[one["by_name"]] = one
    rows = [
        (
            fault.replace("_", " "),
            f"{ways[True]['nodes']:,}",
            f"{ways[True]['seconds']:.1f} s",
            f"{ways[False]['seconds']:.1f} s",
            str(max(way["left"] for way in ways.values())),
        )
        for fault, ways in found.items()
    ]
    header = ("fault", "nodes", "from the message's name", "by bisection alone", "nodes left")
    return (
        f"TensorRT-RTX {record['tensorrt_rtx']}, {record['jobs']} processes, {_place(record)}.\n\n"
        f"{markdown_table(header, rows)}"
    )
