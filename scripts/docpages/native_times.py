"""Makes the tables of what scripts/plugin_vs_native.py and scripts/bench_selection.py measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docpages.marks import markdown_table

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
    parts = [
        f"**{op}**\n\n{markdown_table(HEAD, [_cells(row) for row in rows if row['op'] == op])}"
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


def _cells(row: Mapping[str, Any]) -> list[str]:
    plugin, native = row["plugin"], row["native"]
    return [
        row["case"],
        row["dtype"],
        *(
            _said(side.get("median_us"), ",.1f" if side.get("median_us", 0) < 100 else ",.0f")
            for side in (plugin, native)
        ),
        _said(row.get("ratio"), ".1f", "×"),
        *(_said(side.get("error"), ".1e") for side in (plugin, native)),
        _said(plugin.get("workspace"), ",.1f", unit=2**20),
        _said(native.get("device_memory"), ",.1f", unit=2**20),
        _said(native.get("layers"), "d"),
    ]


def _said(number: float | None, form: str, before: str = "", unit: int = 0) -> str:
    if number is None:
        return "-"
    return before + format(number / unit if unit else number, form)


def selection_table(record: Mapping[str, Any]) -> str:
    """The selection of boxes beside torchvision's."""
    rows = [
        (
            f"{row['boxes']:,}",
            str(row["classes"]),
            f"{row['kept']:,}",
            f"{row['ours_us']:,.0f}",
            f"{row['torchvision_us']:,.0f}",
            f"{row['torchvision_us'] / row['ours_us']:.1f}",
        )
        for row in record["rows"]
    ]
    table = markdown_table(("boxes", "classes", "kept", "trtsmith", "torchvision", "times as long"), rows)
    return (
        f"{record['gpu']}, driver {record['driver']}, commit {record['commit'][:7]}. Medians in µs; "
        f"torchvision {record['packages']['torchvision']}.\n\n{table}"
    )
