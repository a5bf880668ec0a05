"""Compares the manifest of a freshly compiled plugin library with its operators' definitions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.operators.library_manifest import UnreadableManifest, differences, library_manifest
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.problem import Problem


def check_manifest(library: Path, operators: Iterable[OpDef]) -> None:
    """Raises ConversionError with every difference between the library's operators and the definitions, naming both sides.

    Every operator of the library must have a definition. A definition without a plugin in the library is the loader's.
    """
    try:
        document = library_manifest(library)
    except UnreadableManifest as error:
        raise ConversionError(
            f"the library that was built cannot be used: {error}",
            str(library),
            "a library that can be loaded without TensorRT and without a GPU",
            "correct the sources: they must not run code while the library is loaded",
        ) from error
    known = {op.name: op for op in operators}
    problems = []
    for entry in document["operators"]:
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
                "a library and a definition that say the same",
                "change the definition, or the binding in ops/, and run trtsmith op build again",
            )
            for what, compiled, defined in differences(op, entry)
        ]
    if problems:
        raise ConversionError(problems)
