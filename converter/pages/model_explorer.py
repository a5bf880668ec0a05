"""Writes overlays for Google's Model Explorer: one JSON file of node data for each property.

The form is that of model_explorer/node_data_builder.py and the reader in its user interface: {"results": {key: {"value",
"bgColor"}}, "gradient": [...]}, which without the name of a graph is of the graph that is shown. A key is the name of a
node, under which its adapter for ONNX (justinchuby/model-explorer-onnx) has the node; that adapter names nodes without a
name by itself, so for these the key is the first output, which other adapters know as `tensor_name`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite, log10
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_report, write_text
from trtsmith.converter.base.own_files import OVERLAY
from trtsmith.converter.pages.conversion_document import PageContent
from trtsmith.converter.pages.network.entries import NODE, NetworkEntry
from trtsmith.converter.pages.network.node_values import PicturedNetwork

_ROUTES = {
    "native": "#e4e8ee",
    "function": "#d5ebb9",
    "rewritten": "#bcd8fb",
    "plugin": "#d9c2f7",
    "stock plugin": "#b0e3e6",
    "unsupported": "#f5a9a4",
    "gone": "#f4f5f7",
}
_WORDS = ("#bcd8fb", "#fbd3a0", "#b8e6c8", "#d9c2f7", "#f7c0da", "#b0e3e6", "#ebe29a", "#d4d9e0")
_HEAT = [
    {"stop": 0, "bgColor": "#ffffff"},
    {"stop": 0.5, "bgColor": "#fbd38a"},
    {"stop": 1, "bgColor": "#e4574c"},
]

Results = dict[str, dict[str, Any]]


OVERLAYS = ("route", "rule", "type", "error_log10", "time_ms")


def check_overlays(folder: Path | None, *, force: bool) -> None:
    """Checks the folder, which is made on writing. Raises UsageError if it is unusable or has other files of these
    names.
    """
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        what = "the overlays need a folder, and this is a file"
        raise UsageError(what, f"--model-explorer {folder}", "a folder", "name another")
    for name in OVERLAYS if folder.is_dir() else ():
        check_report(_file(folder, name), (), "--model-explorer", "an overlay", OVERLAY, force=force)


def overlays(content: PageContent) -> dict[str, dict[str, Any]]:
    """Makes overlays with content, by file stem: route, rule, type, error, time."""
    network = content.network
    if network is None:
        return {}
    routes = network.routes
    found: dict[str, dict[str, Any]] = {
        "route": {"results": _coloured(network, lambda index: routes[index].route, _ROUTES)},
        "rule": {"results": _coloured(network, lambda index: routes[index].rule, {})},
        "type": {"results": _coloured(network, lambda index: routes[index].dtype, {})},
    }
    errors: dict[int, float] = {}
    for index, _, error, _ in network.errors(content.located["values"]) if content.located else ():
        if index >= 0 and error is not None and isfinite(error):
            errors[index] = max(errors.get(index, 0.0), error)
    # a linear scale would show the largest alone
    scale = {index: round(log10(error), 3) for index, error in errors.items() if error > 0}
    found["error_log10"] = {"results": _valued(network, scale), "gradient": _HEAT}
    layers = (content.bench or {}).get("layers") or {}
    times = {index: ms for index, (ms, _) in network.times(layers.get("layers", ())).items()}
    found["time_ms"] = {"results": _valued(network, times), "gradient": _HEAT}
    return {name: overlay for name, overlay in found.items() if overlay["results"]}


def write_overlays(folder: Path, content: PageContent) -> None:
    """Writes one file for each overlay, each completely or not at all. Raises UsageError if the disk refuses."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"the folder cannot be made: {error.strerror}"
        raise UsageError(
            what, f"--model-explorer {folder}", "a folder that can be written to", "name another"
        ) from error
    for name, overlay in overlays(content).items():
        write_text(
            _file(folder, name),
            json.dumps(overlay, allow_nan=False) + "\n",
            "--model-explorer",
            "an overlay",
        )


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _coloured(network: PicturedNetwork, word: Callable[[int], str], colours: Mapping[str, str]) -> Results:
    """A word for each node that has one; those without a colour of their own get the next of a few."""
    used = dict(colours)
    results: Results = {}
    for index, entry in _nodes(network):
        value = word(index)
        if value:
            colour = used.setdefault(value, _WORDS[(len(used) - len(colours)) % len(_WORDS)])
            results[_key(entry)] = {"value": value, "bgColor": colour}
    return results


def _valued(network: PicturedNetwork, values: Mapping[int, float]) -> Results:
    return {_key(entry): {"value": values[index]} for index, entry in _nodes(network) if index in values}


def _nodes(network: PicturedNetwork) -> list[tuple[int, NetworkEntry]]:
    return [
        (index, entry)
        for index, entry in enumerate(network.entries.all)
        if entry.role == NODE and _key(entry)
    ]


def _key(entry: NetworkEntry) -> str:
    return entry.name or next(filter(None, entry.outputs), "")
