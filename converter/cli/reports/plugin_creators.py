"""Prints the creators of a plugin library."""

from __future__ import annotations

from typing import Any

from trtsmith.importers.counted import counted


def render_creators(described: dict[str, Any]) -> str:
    """One line for each creator: namespace::name, version, interface, number of fields."""
    lines = [
        f"{described['path']}: {counted(len(described['creators']), 'creator')} through {described['how']}"
    ]
    for creator in described["creators"]:
        lines.append(f"  {_title(creator)}  {creator['kind']}  {counted(len(creator['fields']), 'field')}")
    return "\n".join(lines)


def render_inspection(described: dict[str, Any]) -> str:
    lines = [
        f"{described['path']}: {counted(len(described['creators']), 'creator')} through {described['how']}"
    ]
    for creator in described["creators"]:
        lines.append(f"\n{_title(creator)}\n  kind: {creator['kind']}")
        lines += [
            f"  field {spec['name']}: {spec['type']}, length {spec['length']}" for spec in creator["fields"]
        ]
        plugin = creator["plugin"]
        if not plugin["created"]:
            lines.append(f"  plugin: {plugin['reason']}")
            continue
        lines += [f"  {key.replace('_', ' ')}: {value}" for key, value in plugin.items() if key != "created"]
    return "\n".join(lines)


def _title(creator: dict[str, Any]) -> str:
    space = f"{creator['namespace']}::" if creator["namespace"] else ""
    return f"{space}{creator['name']} version {creator['version']}"
