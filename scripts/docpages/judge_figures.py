"""Tables of what scripts/judgeproof counted: right runs that are called wrong, and planted errors that are missed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "judge.json"


def right_runs() -> str:
    """False alarms, and how tight the bounds are."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = [
        (
            part,
            precision,
            f"{row['right_outputs']:,}",
            str(row["false_alarms"]),
            ", ".join(dict.fromkeys(row["alarms"])) or "-",
            f"{row['bound_over_spread']['median']:g}",
            f"{row['bound_over_spread']['p99']:,g}",
        )
        for part, found in record["parts"].items()
        for precision, row in found["precisions"].items()
    ]
    head = (
        "networks",
        "precision",
        "right outputs",
        "false alarms",
        "of",
        "bound over spread, median",
        "99 %",
    )
    return markdown_table(head, rows)


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
