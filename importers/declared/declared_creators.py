"""Defines a foreign plugin creator: its identity and its fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PARSER_VERSION = "1"
"""The plugin version that the ONNX parser looks for where a node has no plugin_version."""

DYNAMIC_INTERFACES = frozenset({"IPluginV3", "IPluginV2DynamicExt"})
"""Interfaces whose plugins take inputs with dynamic shapes."""


@dataclass(frozen=True)
class DeclaredField:
    """One field. length: as declared, often only a hint (0 or 1 for a list). default: the value in the creator's list."""

    name: str
    type: str
    length: int
    default: tuple[int | float, ...] | str | None = None


@dataclass(frozen=True)
class DeclaredCreator:
    """One creator. home: the library that brings it. required: fields that it cannot do without, as far as known.

    interface: of its plugins, where that is known; family: 3 (V3), 2 (V2) or 0 for another.
    """

    name: str
    version: str
    namespace: str
    home: str
    family: int = 3
    fields: tuple[DeclaredField, ...] = ()
    required: frozenset[str] = frozenset()
    interface: str = ""

    def __str__(self) -> str:
        prefix = f"{self.namespace}::" if self.namespace else ""
        return f"{prefix}{self.name} version {self.version}"


def matching(
    creators: Iterable[DeclaredCreator], name: str, version: str, namespace: str, domain: str
) -> DeclaredCreator | None:
    """Finds the creator as the ONNX parser does: by the node's plugin_namespace, then by its domain."""
    found = [creator for creator in creators if (creator.name, creator.version) == (name, version)]
    for wanted in (namespace, domain):
        for creator in found:
            if creator.namespace == wanted:
                return creator
    return None
