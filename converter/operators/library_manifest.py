"""Reads the manifest of a plugin library built with trtsmith's adapters, and compares it with definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Field, OpDef, Port

LIMIT_S = 60.0
"""A library that takes longer to be loaded than this hangs."""

_ASK = """
import ctypes, sys
ask = ctypes.CDLL(sys.argv[1]).trtsmithManifest
ask.restype = ctypes.c_char_p
sys.stderr.write("\\n" + ask().decode())
"""


class UnreadableManifest(Exception):  # noqa: N818  the library may be somebody else's, and right
    """The library does not load or has no manifest."""


def library_manifest(library: Path) -> Mapping[str, Any]:
    """Reads the manifest: interface ("V3", "V2DynamicExt"), cuda_architectures, operators. Loads the library in another
    process.

    Raises UnreadableManifest. What a library prints to stdout while it is loaded is lost.
    """
    command = [sys.executable, "-I", "-c", _ASK, str(library.absolute())]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnreadableManifest(f"it was not loaded within {LIMIT_S:g} s") from None
    said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if ended.returncode < 0:
        raise UnreadableManifest(f"loading it ends the process with signal {-ended.returncode}")
    if ended.returncode:
        if "undefined symbol: trtsmithManifest" in said:
            raise UnreadableManifest("it has no manifest: it was not made with trtsmith's adapters")
        raise UnreadableManifest(f"it does not load: {said}")
    try:
        document = json.loads(said)
        for entry in document["operators"]:
            str.encode(entry["name"])
        str.encode(document["interface"])
        str.encode(document["cuda_architectures"])
    except (ValueError, LookupError, TypeError):
        raise UnreadableManifest("its manifest is not as trtsmith's adapters write it") from None
    found: Mapping[str, Any] = document
    return found


def differences(op: OpDef, entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Lists (subject, compiled value, defined value) wherever a manifest's operator is not the definition."""
    defined = manifest_entry(op)
    for part in ("version", "namespace"):
        if entry.get(part) != defined[part]:
            yield part, repr(entry.get(part)), repr(defined[part])
    for part in ("fields", "inputs", "outputs"):
        compiled = entry.get(part, [])
        names, wanted = ([one.get("name") for one in side] for side in (compiled, defined[part]))
        if names != wanted:
            yield part, ", ".join(map(str, names)) or "none", ", ".join(wanted) or "none"
            continue
        for one, right in zip(compiled, defined[part], strict=True):
            for key, value in right.items():
                if one.get(key) != value:
                    yield f"{key} of {part[:-1]} {right['name']!r}", repr(one.get(key)), repr(value)


def manifest_entry(op: OpDef) -> dict[str, Any]:
    """Makes the entry of an operator with this definition in a library's manifest."""
    return {
        "name": op.name,
        "version": op.version,
        "namespace": PLUGIN_NAMESPACE,
        "fields": [_field(field) for field in op.fields],
        "inputs": [_port(port) for port in op.inputs],
        "outputs": [_port(port) for port in op.outputs],
    }


def _port(port: Port) -> dict[str, Any]:
    return {
        "name": port.name,
        "type": port.type,
        "rank": port.rank,
        "optional": port.optional,
        "size": port.size,
    }


def _field(field: Field) -> dict[str, Any]:
    """C++ knows allowed values as a range; of others it has none, and the definition alone refuses them."""
    known = {"name": field.name, "kind": field.kind.value, "length": field.length}
    if field.allowed and list(field.allowed) != list(range(len(field.allowed))):
        return known
    least, most = (min(field.allowed), max(field.allowed)) if field.allowed else (field.minimum, None)
    return {**known, "minimum": least, "maximum": most}
