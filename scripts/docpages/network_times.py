"""Makes the tables of networks' times from the records of bench_networks.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docpages.marks import markdown_table

H200 = Path(__file__).resolve().parents[2] / "benchmarks" / "h200"
RECORDS = [H200 / name for name in ("networks_fp32_bf16.json", "networks.json", "networks_earlier.json")]
"""The newest first: of the others only what it has not."""

WAYS = (
    "plugins",
    "plugins, softmax apart",
    "native",
    "GridSample",
    "eager",
    "compile",
    "compile, CUDA graphs",
)

OURS = WAYS[:2]
"""Ways that are ours: what they are compared with is the best of the others."""

ROWS = 7
"""Kinds of layers that are shown of a network."""

Record = Mapping[str, Any]


def read() -> list[Record]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS]


def network_times() -> str:
    """What scripts/bench_networks.py measured."""
    return render(read())


def network_layers() -> str:
    """What the engines with plugins spend their time on."""
    return render_layers(read())


def measured(records: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Each network, batch and precision with the newest record that has times of it."""
    found: dict[tuple[Any, ...], tuple[Record, Record]] = {}
    for record in records:
        for row in record["rows"]:
            if any("median_ms" in way for way in row.get("rows", {}).values()):
                found.setdefault((row["network"], row["batch"], row["precision"]), (row, record))
    return [found[key] for key in sorted(found)]


def render(records: Sequence[Record]) -> str:
    header = (
        *(
            "network",
            "batch",
            "precision",
            "commit",
            "plugins",
            "softmax apart",
            "native",
            "GridSample",
            "eager",
        ),
        *(
            "compiled",
            "compiled, graphs",
            "best of the others",
            "error, plugins / eager",
            "memory, plugins / native",
        ),
    )
    return "\n\n".join(
        [
            _machine(records[0]),
            markdown_table(header, [_row(row, record) for row, record in measured(records)]),
        ]
    )


def _machine(record: Record) -> str:
    packages = record["packages"]
    return (
        f"{record['gpu']}, driver {record['driver']}, tensorrt-rtx-cu13 {packages.get('tensorrt-rtx-cu13')}, "
        f"torch {packages.get('torch')}. Medians in ms."
    )


def best_of_others(ways: Mapping[str, Any]) -> float | None:
    """The least median in ms."""
    return min(
        (it["median_ms"] for way, it in ways.items() if way not in OURS and "median_ms" in it), default=None
    )


def _row(row: Record, record: Record) -> tuple[str, ...]:
    ways: Mapping[str, Any] = row["rows"]
    best, mine = best_of_others(ways), ways.get("plugins", {}).get("median_ms")
    ratio = f"{best:.3f}: {best / mine:.2f} times ours" if best is not None and mine else ""
    times = [_time(ways.get(way)) for way in WAYS]
    memory = " / ".join(_mib(ways.get(way, {}).get("device_memory")) for way in ("plugins", "native"))
    errors = " / ".join(_error(ways.get(way)) for way in ("plugins", "eager"))
    return (
        row["network"],
        str(row["batch"]),
        row["precision"],
        record["commit"],
        *times,
        ratio,
        errors,
        memory,
    )


def _time(way: Record | None) -> str:
    if way is None:
        return ""
    return f"{way['median_ms']:.3f}" if "median_ms" in way else "none"


def _error(way: Record | None) -> str:
    errors = (way or {}).get("errors")
    return f"{max(errors.values()):.1e}" if errors else ""


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:.0f} MiB"


def render_layers(records: Sequence[Record]) -> str:
    rows = []
    for row, _ in measured(records):
        profile = row["rows"].get("plugins", {}).get("layers")
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
    return markdown_table(("network", "operators of a layer", "layers", "ms", "of the engine"), rows)
