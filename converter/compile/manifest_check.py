"""Holds what a compiled plugin library says of its operators to their definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.model.errors import ConversionError
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Field, OpDef, Port
from trtsmith.importers.problem import Problem

TIMEOUT_S = 60
_READ = (
    "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).trtsmithManifest; f.restype = ctypes.c_char_p; "
    "sys.stdout.write(f().decode())"
)


def read_manifest(library: Path) -> dict[str, Any]:
    """What a library of our adapters says of itself, asked in another process. ConversionError if it does not load."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _READ, str(library)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        said, why = done.stdout, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        document = json.loads(said) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError) as error:
        document, why = None, str(error)
    if not isinstance(document, dict):
        raise ConversionError(
            Problem(
                f"the library that was built does not load: {why}",
                str(library),
                "a library that can be loaded without TensorRT and without a GPU",
                "correct the sources: nothing of theirs may run while a library is loaded",
            )
        )
    return document


def check_manifest(library: Path, operators: Iterable[OpDef]) -> None:
    """ConversionError with every difference between the library's operators and the definitions, both sides told.

    Every operator of the library must have a definition. A definition without a plugin in the library is the loader's.
    """
    document = read_manifest(library)
    known = {op.name: op for op in operators}
    problems = []
    for entry in document.get("operators", []):
        op = known.get(entry["name"])
        if op is None:
            problems.append(
                Problem(
                    f"the library has an operator {entry['name']} that no definition describes",
                    str(library),
                    f"one of OPERATORS: {', '.join(known) or 'none'}",
                    "write its OpDef, or give kName of the binding the definition's name",
                )
            )
            continue
        problems += [
            Problem(
                f"{what}: the library has {compiled}, the definition {defined}",
                f"plugin {op.name} of {library.name}",
                "one truth in two languages",
                f"change {where} of the definition, or of the binding in ops/, and run trtsmith build-plugins again",
            )
            for what, where, compiled, defined in _differences(op, entry)
        ]
    if problems:
        raise ConversionError(problems)


def _differences(op: OpDef, entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(what, the member that has it, as it was compiled, as it is defined)."""
    for what, defined in (("version", op.version), ("namespace", PLUGIN_NAMESPACE)):
        if entry[what] != defined:
            yield what, what, repr(entry[what]), repr(defined)
    for what, own in (
        ("fields", [_field(f) for f in op.fields]),
        ("inputs", [_port(p) for p in op.inputs]),
        ("outputs", [_port(p) for p in op.outputs]),
    ):
        names, compiled = [one["name"] for one in own], [one["name"] for one in entry[what]]
        if names != compiled:
            yield what, what, ", ".join(compiled) or "none", ", ".join(names) or "none"
            continue
        for one, other in zip(own, entry[what], strict=True):
            for key in (key for key in one if one[key] != other.get(key)):
                yield f"{key} of {what[:-1]} {one['name']}", what, repr(other.get(key)), repr(one[key])


def _port(p: Port) -> dict[str, Any]:
    return {"name": p.name, "type": p.type, "rank": p.rank, "optional": p.optional, "size": p.size}


def _field(f: Field) -> dict[str, Any]:
    """Allowed whole numbers without a gap are a range in C++; other sets of values C++ does not know."""
    known: dict[str, Any] = {"name": f.name, "kind": f.kind.value, "length": f.length}
    numbers = sorted(value for value in f.allowed if isinstance(value, int))
    if len(numbers) != len(f.allowed) or numbers != list(range(len(numbers))):
        return known
    least, most = (numbers[0], numbers[-1]) if numbers else (f.minimum, None)
    return known | {"minimum": least, "maximum": most}
