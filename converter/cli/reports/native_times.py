"""Prints the part of a `trtsmith bench` record that compares plugins with native operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtsmith.converter.cli.console import one_line, table


def render(document: Mapping[str, Any]) -> str:
    """Renders both engines, or the reason for only one, and the nodes alone."""
    rows: list[tuple[str, ...]] = [
        ("", "GPU compute ms", "response ms", "error", "engine MiB", "device MiB", "")
    ]
    for name in ("plugin", "native"):
        s = document[name]
        if "unavailable" in s:
            rows.append((name, "-", "-", "-", "-", "-", f"not available: {s['unavailable']}"))
            continue
        times = (f"{s[key]['median']:.4g}" for key in ("compute_ms", "response_ms"))
        sizes = (f"{s[key] / 2**20:.1f}" for key in ("engine_bytes", "device_memory"))
        error = "unknown" if s["error"] is None else f"{s['error']:.1e}"
        rows.append((name, *times, error, *sizes, "agrees" if s["agrees"] else s["reason"]))
    parts = ["plugin against native:", table(rows)]
    if document["ratio"] is not None:
        parts.append(f"native takes {document['ratio']:.3g} times as long as plugin")
    if document["nodes_unavailable"]:
        parts.append(f"the nodes alone could not be timed: {one_line(document['nodes_unavailable'])}")
    if document["nodes"]:
        parts.append(_nodes(document["nodes"]))
    return "\n".join(parts)


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    rows: list[tuple[str, ...]] = [
        ("node alone", "op", "dtype", "plugin us", "error", "native us", "error", "ratio", "")
    ]
    for node in nodes:
        cells: list[str] = []
        reasons = []
        for name in ("plugin", "native"):
            figures = node[name]
            if "unavailable" in figures:
                cells += ["-", "-"]
                reasons.append(f"{name}: {figures['unavailable']}")
            else:
                cells += [f"{figures['median_us']:.4g}", f"{figures['error']:.1e}"]
        ratio = "-" if node["ratio"] is None else f"x{node['ratio']:.3g}"
        rows.append(
            (node["node"], node["op"], node["dtype"], *cells, ratio, "; ".join(dict.fromkeys(reasons)))
        )
    return table(rows)
