"""Writes the table of NVIDIA's open source V2 plugins and their migration by `trtsmith plugin migrate`, from its record."""

from __future__ import annotations

import json
from typing import Any

from docpages.marks import code, escaped, markdown_table
from freshness.record_rows import BENCHMARKS

_PLAIN = ("it is created without its field ", "the library has version ")
"""How notes begin that say nothing special of a plugin."""


def plugins() -> str:
    """One row for each plugin; then a sentence on those whose interface has no batch."""
    record = json.loads((BENCHMARKS / "migrated_plugins.json").read_text(encoding="utf-8"))
    dynamic = [one for one in record["plugins"] if one["interface"] == "IPluginV2DynamicExt"]
    others = [one for one in record["plugins"] if one["interface"] != "IPluginV2DynamicExt"]
    header = (
        "plugin",
        "version",
        "fields",
        "inputs, outputs",
        "shape rule",
        "to know, or why it was refused",
    )
    done = sum("refused" not in one for one in dynamic)
    rules = sum(one.get("shapes") is not None for one in dynamic)
    assert all("refused" in one for one in others)
    return "\n\n".join(
        (
            markdown_table(header, [_row(one) for one in dynamic]),
            f"Of release {record['release']}, {done} of {len(dynamic)} plugins of IPluginV2DynamicExt were migrated, "
            f"{rules} of them with their shape rule. The library was compiled so: {record['library']}.",
            f"Refused are {len(others)} of older interfaces, whose shapes have no batch: "
            + ", ".join(f"{code(one['plugin'])} {one['version']}" for one in others)
            + ".",
        )
    )


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    head = (code(one["plugin"]), one["version"], str(len(one["fields"])))
    if "refused" in one:
        return *head, "", "", f"refused: {escaped(one['refused'])}"
    ports = f"{len(one['inputs'])}, {len(one['outputs'])}"
    notes = escaped("; ".join(note for note in one["notes"] if not note.startswith(_PLAIN)))
    if one["shapes"] is None:
        return *head, ports, "to be written", notes
    shapes = ", ".join(f"[{', '.join(dims)}]" for dims in one["shapes"].values())
    rules = shapes.replace("input_", "in").replace('fields["', "").replace('"]', "")
    return *head, ports, code(rules), notes
