"""Writes the Markdown tables of what plugin_vs_native.py measured, and of why a figure is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEAD = (
    "case",
    "dtype",
    "plugin, µs",
    "native, µs",
    "native / plugin",
    "error of the plugin",
    "of native",
    "workspace, MiB",
    "native's device memory, MiB",
    "native's layers",
)


def native_tables(record: Mapping[str, Any]) -> str:
    """A table for each operator, the reasons for what is missing, and with what it was measured."""
    rows = record["rows"]
    parts = []
    for op in dict.fromkeys(row["op"] for row in rows):
        lines = [HEAD, ["---", "---", *["---:"] * (len(HEAD) - 2)]]
        lines += [_cells(row) for row in rows if row["op"] == op]
        parts.append(f"**{op}**\n\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in lines))
    parts += _missing(rows)
    parts.append(
        f"{record['gpu']}, driver {record['driver']}, {record['tensorrt']}, PyTorch {record['packages']['torch']}, "
        f"{record['date'][:10]}, `{record['command']}`. Medians. Errors are relative, against float64."
    )
    return "\n\n".join(parts) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    plugin, native = row["plugin"], row.get("native", {})
    return [
        row["case"],
        row["dtype"],
        _time(plugin.get("median_us")),
        _time(native.get("median_us")),
        f"×{row['ratio']:.1f}" if "ratio" in row else "-",
        _error(plugin.get("error")),
        _error(native.get("error")),
        _mebibytes(plugin.get("workspace")),
        _mebibytes(native.get("device_memory")),
        str(native.get("layers", "-")),
    ]


def _missing(rows: list[Mapping[str, Any]]) -> list[str]:
    """Each reason once, with the sizes that it is about."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for side in ("plugin", "native"):
            reason = row.get(side, {}).get("unavailable")
            if reason:
                reasons.setdefault(f"{side}: {reason}", []).append(f"{row['case']} {row['dtype']}")
    return [
        f"Not measured, {reason} ({', '.join(dict.fromkeys(cases))})." for reason, cases in reasons.items()
    ]


def _time(microseconds: float | None) -> str:
    if microseconds is None:
        return "-"
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"


def _error(error: float | None) -> str:
    return "-" if error is None else f"{error:.1e}"


def _mebibytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**20:,.1f}"
