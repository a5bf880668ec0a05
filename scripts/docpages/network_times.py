"""Makes the tables of networks' times from the record of bench_networks.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "h200" / "networks.json"

OURS = ("plugins", "plugins, softmax apart")
"""Ways that are ours: the better of the others is what they are compared with."""

WAYS = (
    "plugins",
    "plugins, softmax apart",
    "native",
    "GridSample",
    "eager",
    "compile",
    "compile, CUDA graphs",
)

ROWS = 6
"""Layers that are shown of a network."""


def network_times() -> str:
    """What scripts/bench_networks.py measured."""
    return render(json.loads(RECORD.read_text(encoding="utf-8")))


def network_layers() -> str:
    """The slowest layers of the engines with plugins."""
    return render_layers(json.loads(RECORD.read_text(encoding="utf-8")))


def render(record: Mapping[str, Any]) -> str:
    header = ("network", "batch", "precision", "plugins", "softmax apart", "native", "GridSample", "eager", "compiled",
              "compiled, graphs", "best of the others", "error, ours / eager", "memory, ours / native")  # fmt: skip
    rows = [_row(row) for row in record["rows"] if "rows" in row]
    died = [f"{row['network']} {row['precision']}: {row['died']}" for row in record["rows"] if "died" in row]
    return "\n\n".join([_machine(record), markdown_table(header, rows), *died])


def _machine(record: Mapping[str, Any]) -> str:
    packages = record["packages"]
    return (
        f"{record['gpu']}, driver {record['driver']}, tensorrt-rtx-cu13 {packages.get('tensorrt-rtx-cu13')}, "
        f"torch {packages.get('torch')}. Medians in ms."
    )


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    ways: Mapping[str, Any] = row["rows"]
    ours = ways.get("plugins", {})
    others = [it["median_ms"] for way, it in ways.items() if way not in OURS and "median_ms" in it]
    best = min(others, default=None)
    mine = ours.get("median_ms")
    ratio = f"{best:.3f}: x{best / mine:.2f}" if best is not None and mine else ""
    times = [_time(ways.get(way)) for way in WAYS]
    memory = " / ".join(_mib(ways.get(way, {}).get("device_memory")) for way in ("plugins", "native"))
    errors = " / ".join(_error(ways.get(way)) for way in ("plugins", "eager"))
    return (row["network"], str(row["batch"]), row["precision"], *times, ratio, errors, memory)


def _time(way: Mapping[str, Any] | None) -> str:
    if way is None:
        return ""
    return f"{way['median_ms']:.3f}" if "median_ms" in way else "fails"


def _error(way: Mapping[str, Any] | None) -> str:
    errors = (way or {}).get("errors")
    return f"{max(errors.values()):.1e}" if errors else ""


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.0f} MiB"


def render_layers(record: Mapping[str, Any]) -> str:
    rows = []
    for row in record["rows"]:
        profile = row.get("rows", {}).get("plugins", {}).get("layers")
        if row["precision"] != "fp16" or profile is None:
            continue
        for kind in profile["by_type"][:ROWS]:
            rows.append(
                (
                    f"{row['network']}, batch {row['batch']}",
                    kind["type"][:60],
                    str(kind["layers"]),
                    f"{kind['ms']:.3f}",
                    f"{100 * kind['share']:.0f} %",
                )
            )
    return markdown_table(("network, fp16", "operators of a layer", "layers", "ms", "of the engine"), rows)
