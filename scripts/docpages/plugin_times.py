"""Makes the tables of single plugins' times: inside an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from docpages.marks import markdown_table
from docpages.network_times import H200

Record = Mapping[str, Any]


def _read(name: str) -> Record:
    record: Record = json.loads((H200 / name).read_text(encoding="utf-8"))
    return record


def _head(record: Record) -> str:
    return f"{record['gpu']}, driver {record['driver']}, commit {record['commit'][:7]}. Medians in µs."


def plugin_layers() -> str:
    """What scripts/bench_plugin_layers.py measured."""
    return render_layers(_read("plugin_layers.json"))


def render_layers(record: Record) -> str:
    header = ("operator", "case", "dtype", "kernel alone", "the plugin's layer", "other layers", "engine")
    rows = []
    for row in record["rows"]:
        own = sum(us for name, us in row["layers_us"].items() if "plugin" in name)
        others = sum(row["layers_us"].values()) - own
        kernel = row["kernel_us"]
        engine = f"{row['engine_us']:.1f} (×{row['engine_us'] / kernel:.2f})"
        layer = f"{own:.1f} (×{own / kernel:.2f})"
        rows.append((row["op"], row["case"], row["dtype"], f"{kernel:.1f}", layer, f"{others:.1f}", engine))
    return f"{_head(record)}\n\n{markdown_table(header, rows)}"
