"""Writes the tables of scripts/plugin_vs_native.py and scripts/bench_selection.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docpages.marks import table_of


def native_tables(record: Mapping[str, Any]) -> str:
    """A table for each operator, the reasons for missing figures, and the set-up of the measurement."""
    rows = record["rows"]
    parts = [
        f"**{op}**\n\n{table_of((row for row in rows if row['op'] == op), COLUMNS)}"
        for op in dict.fromkeys(row["op"] for row in rows)
    ]
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        for side in ("plugin", "native"):
            if reason := row[side].get("unavailable"):
                reasons.setdefault(f"{side}: {reason}", {})[f"{row['case']} {row['dtype']}"] = None
    parts += [f"Not measured, {reason} ({', '.join(cases)})." for reason, cases in reasons.items()]
    parts.append(
        f"{record['gpu']}, driver {record['driver']}, {record['tensorrt']}, PyTorch {record['packages']['torch']}, "
        f"{record['date'][:10]}, `{record['command']}`. Medians. Errors are relative, against float64."
    )
    return "\n\n".join(parts)


def _said(number: float | None, form: str, before: str = "", unit: int = 0) -> str:
    if number is None:
        return "-"
    return before + format(number / unit if unit else number, form)


def _time(side: Mapping[str, Any]) -> str:
    return _said(side.get("median_us"), ",.1f" if side.get("median_us", 0) < 100 else ",.0f")


COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "case": lambda row: row["case"],
    "dtype": lambda row: row["dtype"],
    "plugin, µs": lambda row: _time(row["plugin"]),
    "native, µs": lambda row: _time(row["native"]),
    "native / plugin": lambda row: _said(row.get("ratio"), ".1f", "×"),
    "error of the plugin": lambda row: _said(row["plugin"].get("error"), ".1e"),
    "of native": lambda row: _said(row["native"].get("error"), ".1e"),
    "workspace, MiB": lambda row: _said(row["plugin"].get("workspace"), ",.1f", unit=2**20),
    "native's device memory, MiB": lambda row: _said(row["native"].get("device_memory"), ",.1f", unit=2**20),
    "native's layers": lambda row: _said(row["native"].get("layers"), "d"),
}

SELECTION: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "boxes": lambda row: f"{row['boxes']:,}",
    "classes": lambda row: str(row["classes"]),
    "kept": lambda row: f"{row['kept']:,}",
    "trtsmith": lambda row: f"{row['ours_us']:,.0f}",
    "torchvision": lambda row: f"{row['torchvision_us']:,.0f}",
    "times as long": lambda row: f"{row['torchvision_us'] / row['ours_us']:.1f}",
}


def selection_table(record: Mapping[str, Any]) -> str:
    """The table of box selection beside torchvision's."""
    return (
        f"{record['gpu']}, driver {record['driver']}, commit {record['commit'][:7]}. Medians in µs; "
        f"torchvision {record['packages']['torchvision']}.\n\n{table_of(record['rows'], SELECTION)}"
    )
