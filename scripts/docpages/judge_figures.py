"""Tables of what scripts/judgeproof counted: right runs that are called wrong, and planted errors that are missed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table, table_of

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "judge.json"


RIGHT: Mapping[str, Callable[[tuple[str, str, Any]], str]] = {
    "networks": lambda found: found[0],
    "precision": lambda found: found[1],
    "right outputs": lambda found: f"{found[2]['right_outputs']:,}",
    "false alarms": lambda found: str(found[2]["false_alarms"]),
    "of": lambda found: ", ".join(dict.fromkeys(found[2]["alarms"])) or "-",
    "bound over spread, median": lambda found: f"{found[2]['bound_over_spread']['median']:g}",
    "99 %": lambda found: f"{found[2]['bound_over_spread']['p99']:,g}",
}
"""Of a part, a precision and what was counted."""


def right_runs() -> str:
    """False alarms, and how tight the bounds are."""
    parts = json.loads(RECORD.read_text(encoding="utf-8"))["parts"].items()
    return table_of(((part, *row) for part, found in parts for row in found["precisions"].items()), RIGHT)


def planted_errors() -> str:
    """By kind of error, how many were found, missed, and too small to be due."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    precisions = list(next(iter(record["parts"].values()))["precisions"])
    kinds: dict[str, Mapping[str, Mapping[str, int]]] = {}
    for found in record["parts"].values():
        for kind, row in found["kinds"].items():
            known: Any = kinds.setdefault(kind, {name: dict.fromkeys(row[name], 0) for name in precisions})
            for name in precisions:
                for outcome, count in row[name].items():
                    known[name][outcome] += count
    rows = [
        (
            kind,
            *(f"{row[name]['found']} / {row[name]['missed']} / {row[name]['below']}" for name in precisions),
        )
        for kind, row in kinds.items()
    ]
    return markdown_table(("planted: found / missed / below", *precisions), rows)
