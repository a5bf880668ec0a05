"""Writes the table of whole networks in engines on a GPU, from all records that have some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docpages.evidence import ENGINES_RECORDS, read
from docpages.marks import markdown_table
from gpucheck import engine_tables

HEADER = ("network", "commit", "precision", "error of the engine", "of what is allowed", "verdict")


def networks() -> str:
    """The newest run of each network in the step networks of scripts/gpu_check.py --engines."""
    return render([read(path) for path in ENGINES_RECORDS])


def render(records: Sequence[Mapping[str, Any]]) -> str:
    """The table. records: the newest first."""
    done: set[str] = set()
    lines, said = [], []
    for record in records:
        rows = [r for r in record["steps"].get("networks", {}).get("rows", []) if r["network"] not in done]
        if rows:
            done |= {row["network"] for row in rows}
            said.append(f"At {record['commit'][:7]} {engine_tables.networks_said(rows)}.")
        for network, *rest in engine_tables.network_rows(rows):
            lines.append((network, record["commit"][:7], *rest))
    if not lines:
        return "The step was not run yet."
    return f"{engine_tables.heading(records[0])} {' '.join(said)}\n\n{markdown_table(HEADER, lines)}"
