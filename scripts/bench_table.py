"""Writes the Markdown tables of benchmark records: python3 scripts/bench_table.py NEWEST.json [OLDER.json ...]."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAMES = {
    "eager": "PyTorch",
    "compile": "torch.compile",
    "torchvision": "torchvision",
    "convolution": "plain convolution",
    "expansion": "expansion",
}
"""Heads of columns by baseline."""


def bench_tables(records: Sequence[Mapping[str, Any]]) -> str:
    """The tables of several records; each row is shown for the first record that has it."""
    seen: set[tuple[str, str, str]] = set()
    parts = []
    for record in records:
        rows = {
            op: [row for row in rows if (op, row["case"], row["dtype"]) not in seen]
            for op, rows in record["ops"].items()
        }
        seen |= {(op, row["case"], row["dtype"]) for op, new in rows.items() for row in new}
        parts.append(bench_table({**record, "ops": {op: new for op, new in rows.items() if new}}))
    return "\n".join(parts)


def bench_table(record: Mapping[str, Any]) -> str:
    """A table for each operator of a `trtsmith plugin bench --json` record: times, ratios to baselines, and the machine's
    rates. Baselines without any figure have no column.
    """
    parts = []
    for op, rows in record["ops"].items():
        labels = [
            label
            for label in dict.fromkeys(label for row in rows for label in row["baselines"])
            if any("ratio" in row["baselines"].get(label, {}) for row in rows)
        ]
        head = ["case", "dtype", "trtsmith, µs", "limit, µs", "of limit", "error", *map(_name, labels)]
        align = ["---", "---", *["---:"] * (len(head) - 2)]
        lines = [head, align, *(_cells(row, labels) for row in rows)]
        parts.append(f"**{op}**\n\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in lines))
    rates = record["ceilings"]
    products = ", ".join(f"{name} {rate:.0f}" for name, rate in rates["matmul_tflop_s"].items())
    parts.append(
        f"{record['gpu']}, driver {record['driver']}, PyTorch {record['packages']['torch']}, {record['date'][:10]}, "
        f"`{record['command']}`. Medians. In the same run a copy reached {rates['copy_gb_s']:.0f} GB/s and matrix "
        f"products {products} TFLOP/s; the limit is what these allow at best."
    )
    return "\n\n".join(parts) + "\n"


def _name(label: str) -> str:
    base = label.removesuffix("_tf32")
    return NAMES.get(base, base) + (" (TF32)" if base != label else "")


def _cells(row: Mapping[str, Any], labels: list[str]) -> list[str]:
    ours = row["ours"]
    dtype = row["dtype"] if row["precision"] == row["dtype"] else f"{row['dtype']} ({row['precision']})"
    error = f"{ours['error']:.1e}" + ("" if ours["right"] else " **wrong**")
    limit = f"{row['limit_us'][row['binding']]:.1f} ({row['binding']})"
    cells = [row["case"], dtype, _time(ours["median_us"]), limit, f"{ours['of_limit']:.0%}", error]
    for label in labels:
        baseline = row["baselines"].get(label, {})
        cells.append(
            f"{_time(baseline['median_us'])} (×{baseline['ratio']:.1f})" if "ratio" in baseline else "-"
        )
    return cells


def _time(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"


if __name__ == "__main__":
    print(bench_tables([json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]))
