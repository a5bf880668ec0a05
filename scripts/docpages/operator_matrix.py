"""Writes the matrix of evidence: for every operator, the types and routes that were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from docpages.evidence import H200, RECORDS, newest, read
from docpages.marks import markdown_table
from trtsmith.converter.plugin.cases import type_choices
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

COLUMNS = {
    "reference against expansion": "expansion",
    "contract of IPluginV3": "contract V3",
    "contract of IPluginV2": "contract V2",
    "kernel, libtrtsmith_plugins": "kernel V3",
    "kernel, libtrtsmith_plugins_v2": "kernel V2",
    "static shapes": "engine, static",
    "dynamic shapes": "dynamic",
    "CUDA graph": "CUDA graph",
    "two contexts on two streams": "two streams",
    "library embedded": "embedded",
}
"""Routes as the records have them, and as the table does."""

PLUGIN_CHECKS = ("check_bindings.json", "check_accumulation.json", "check_plugins.json", "check.json")
"""Records of the steps plugins and plugins-v2, the newest first: of the others only what it has not."""

KINDS = ("ordinary", "no elements", "NaN or infinity")

Rows = Mapping[tuple[str, str, str], Counter[str]]


def matrix() -> str:
    """A line for each operator and choice of types."""
    return render(OPS, _rows())


def _rows() -> Iterable[Mapping[str, Any]]:
    yield from read(RECORDS / "operators.json")["rows"]
    newer: set[tuple[str, str]] = set()
    for name in PLUGIN_CHECKS:
        steps = read(H200 / name)["steps"].values()
        rows = [row for step in steps for row in step["rows"] if "route" in row]
        yield from (row for row in rows if (row["op"], row["route"]) not in newer)
        newer |= {(row["op"], row["route"]) for row in rows}
    yield from newest("operators")["steps"]["operators"]["rows"]


def render(ops: Iterable[OpDef], rows: Iterable[Mapping[str, Any]]) -> str:
    tried: dict[tuple[str, str, str], Counter[str]] = {}
    right: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        key = (row["op"], row["types"], row["route"])
        tried.setdefault(key, Counter())[row["kind"]] += row["cases"]
        right.setdefault(key, Counter())[row["kind"]] += row["passed"]
    lines = []
    for op in ops:
        for types in type_choices(op):
            said = " ".join(types.values())
            keys = [(op.name, said, route) for route in COLUMNS]
            cells = [
                _cell(tried[key], right[key]) if key in tried else _why_not(op, *key[1:]) for key in keys
            ]
            lines.append((op.name, said, *cells))
    return markdown_table(("operator", "types", *COLUMNS.values()), lines)


def _cell(tried: Counter[str], right: Counter[str]) -> str:
    """Passed cases by class: ordinary + no elements + NaN or infinity; with the total where some failed."""
    kinds = [kind for kind in KINDS if tried[kind]]
    return " + ".join(
        f"{right[k]}" if right[k] == tried[k] else f"**{right[k]} of {tried[k]}**" for k in kinds
    )


def _why_not(op: OpDef, types: str, route: str) -> str:
    """The reason for missing evidence: a footnote of the page, or that the recording command was not run."""
    if op.data_dependent and "V2" in route + COLUMNS[route]:
        return "a"
    if op.data_dependent and route == "CUDA graph":
        return "b"
    if "bfloat16" in types and route == "reference against expansion":
        return "c"
    return "not run"
