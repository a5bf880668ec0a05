"""Prints the result of `trtsmith plugin bench`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtsmith.converter.cli.console import table

HEAD = ("case", "dtype", "us", "p10-p90", "limit", "of limit", "GB/s", "TFLOP/s", "error")


def render(document: Mapping[str, Any]) -> str:
    """Renders a table for each operator, with baseline time / our time as the ratio; then the machine's peak rates."""
    parts = []
    for name, rows in document["ops"].items():
        if rows:
            labels = list(dict.fromkeys(label for row in rows for label in row["baselines"]))
            lines = [(*HEAD, *labels), *(_line(row, labels) for row in rows)]
            parts.append("\n".join([name, table(lines), *_reasons(rows)]))
    rates = document["ceilings"]
    products = ", ".join(f"{name} {rate:g}" for name, rate in rates["matmul_tflop_s"].items())
    parts.append(
        f"{document['gpu']}: copy {rates['copy_gb_s']:g} GB/s; matrix products {products} TFLOP/s; "
        f"no work at all takes {rates['empty_us']:.1f} us"
    )
    return "\n\n".join(parts)


def _line(row: Mapping[str, Any], labels: list[str]) -> tuple[str, ...]:
    ours = row["ours"]
    bound = row["limit_us"][row["binding"]]
    return (
        row["case"],
        row["precision"] if row["precision"] == row["dtype"] else f"{row['dtype']} ({row['precision']})",
        f"{ours['median_us']:.1f}",
        f"{ours['p10_us']:.1f}-{ours['p90_us']:.1f}",
        f"{bound:.1f} {row['binding']}",
        f"{ours['of_limit']:.0%}",
        f"{ours['gb_s']:.0f}",
        f"{ours['tflop_s']:.3g}",
        f"{ours['error']:.1e}{'' if ours['right'] else ' WRONG'}",
        *(_ratio(row["baselines"].get(label)) for label in labels),
    )


def _ratio(baseline: Mapping[str, Any] | None) -> str:
    return "-" if baseline is None or "ratio" not in baseline else f"x{baseline['ratio']:.2f}"


def _reasons(rows: list[Mapping[str, Any]]) -> list[str]:
    """Why baselines are missing, each reason once."""
    reasons = [
        f"  {label} not available: {baseline['unavailable']}"
        for row in rows
        for label, baseline in row["baselines"].items()
        if "unavailable" in baseline
    ]
    return list(dict.fromkeys(reasons))
