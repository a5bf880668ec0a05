"""Lists TensorRT's own plugins by release, read from NVIDIA's sources.

scripts/stockplugins/write_table.py writes it. TensorRT's library libnvinfer_plugin has the plugins; TensorRT-RTX and the
lean runtime come without it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx.defs

from trtsmith.importers.declared.declared_creators import DeclaredCreator, DeclaredField

_TABLE = Path(__file__).with_name("stock_plugins.json")

Release = tuple[int, ...]


@dataclass(frozen=True)
class StockPlugin:
    """A plugin as some releases of TensorRT declare it. first, last: the oldest and the newest of these releases.

    newest: whether `last` is the newest release that the table knows: later ones are taken to have it too.
    """

    creator: DeclaredCreator
    first: Release
    last: Release
    newest: bool

    def is_in(self, release: Release) -> bool:
        """Tells whether this TensorRT version has the plugin; assumed for an unknown version, ()."""
        mine = release[:2]
        return not mine or (self.first <= mine and (mine <= self.last or self.newest))

    @property
    def releases(self) -> str:
        """Names the releases, as in "TensorRT 8.6 to 10.16"."""
        first, last = (".".join(map(str, release)) for release in (self.first, self.last))
        return f"TensorRT {first}" + (" on" if self.newest else f" to {last}" if last != first else "")


@cache
def stock_table() -> tuple[StockPlugin, ...]:
    """Lists every declaration, by name, version and release."""
    document = json.loads(_TABLE.read_text(encoding="utf-8"))
    newest = _release(list(document["releases"])[-1])
    return tuple(_plugin(entry, newest) for entry in document["plugins"])


@cache
def stock_plugins(release: Release = ()) -> tuple[StockPlugin, ...]:
    """Lists the plugins of one TensorRT, one for each name and version; of the newest TensorRT if it is unknown."""
    found: dict[tuple[str, str], StockPlugin] = {}
    for plugin in stock_table():
        if plugin.is_in(release):
            found[(plugin.creator.name, plugin.creator.version)] = plugin
    return tuple(found.values())


def stock_names() -> frozenset[str]:
    """Names the plugins of all releases."""
    return frozenset(plugin.creator.name for plugin in stock_table())


@cache
def stock_op_types() -> frozenset[str]:
    """Names those plugins whose nodes the parser does not take for ONNX's operators of the same name."""
    return frozenset(name for name in stock_names() if not onnx.defs.has(name))


def _plugin(entry: dict[str, Any], newest: Release) -> StockPlugin:
    releases = [_release(text) for text in entry["releases"]]
    first, last = min(releases), max(releases)
    creator = DeclaredCreator(
        name=entry["name"],
        version=entry["version"],
        namespace="",
        home="",
        family=3 if entry["interface"] == "IPluginV3" else 2,
        fields=tuple(DeclaredField(f["name"], f["type"], f["length"]) for f in entry["fields"]),
        required=frozenset(entry["required"]),
        interface=entry["interface"],
    )
    return StockPlugin(creator, first, last, last == newest)


def _release(text: str) -> Release:
    return tuple(map(int, text.split(".")))
