"""Writes tables of the counts of scripts/judgeproof: correct runs judged wrong, and planted errors missed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table, table_of

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RECORD = BENCHMARKS / "judge.json"
NARROW = BENCHMARKS / "narrow_types.json"


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
    """Rates of false alarms, and the tightness of the bounds."""
    parts = json.loads(RECORD.read_text(encoding="utf-8"))["parts"].items()
    return table_of(((part, *row) for part, found in parts for row in found["precisions"].items()), RIGHT)


def planted_errors() -> str:
    """By kind of error, the numbers found, missed, and too small to count."""
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


def narrow_types() -> str:
    """By type, and by whether it holds the values: the verdicts, and the engines that match the reference to the
    last bit.
    """
    record = json.loads(NARROW.read_text(encoding="utf-8"))
    kinds: dict[tuple[str, bool], list[Any]] = {}
    for row in record["rows"]:
        kinds.setdefault((row["network"].rpartition(", ")[2], row["held"]), []).append(row)
    rows = [
        (
            dtype,
            "holds its values" if held else "does not",
            str(len(found)),
            ", ".join(f"{count} {word}" for word, count in Counter(r["verdict"] for r in found).items()),
            str(sum(r["engine_equal"] == 1 for r in found)),
        )
        for (dtype, held), found in kinds.items()
    ]
    equal = f"engines equal to the last bit ({record['gpu']}, TensorRT-RTX {record['tensorrt']})"
    return markdown_table(("type", "the type", "networks", "verdicts", equal), rows)
