"""The Markdown table of a benchmark record: python3 scripts/bench_table.py benchmarks/h200/*.json"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES = {
    "eager": "PyTorch",
    "compile": "torch.compile",
    "torchvision": "torchvision",
    "convolution": "plain convolution",
    "expansion": "expansion",
}
"""Heads of columns by rival."""


def bench_table(record: Mapping[str, Any]) -> str:
    """A table for each operator of what `trtsmith plugin bench --json` wrote, with rivals' times and how many times ours
    they are, and what the machine reached. Rivals without any figure have no column."""
    parts = []
    for op, rows in record["ops"].items():
        labels = [
            label
            for label in dict.fromkeys(label for row in rows for label in row["rivals"])
            if any("ratio" in row["rivals"].get(label, {}) for row in rows)
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
        rival = row["rivals"].get(label, {})
        cells.append(f"{_time(rival['median_us'])} (×{rival['ratio']:.1f})" if "ratio" in rival else "-")
    return cells


def _time(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(bench_table(json.loads(Path(name).read_text(encoding="utf-8"))))
