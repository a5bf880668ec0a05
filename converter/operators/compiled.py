"""Finds plugin libraries of operators from outside, and compares them with their definitions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.operators.library_manifest import UnreadableManifest, differences, library_manifest
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import by_name, package_of

INTERFACE = "V3"
"""What the ONNX parsers of TensorRT 10, 11 and TensorRT-RTX create plugins by."""

SOURCES = "plugins.cmake"
"""The list of a project's kernels, by which `trtsmith op build` knows its folder."""


@dataclass(frozen=True)
class CompiledOperators:
    """A plugin library of a package. architectures: from its manifest. operators: those requested."""

    path: Path
    package: OperatorPackage
    architectures: str
    operators: tuple[str, ...]


def compiled_operators(names: Iterable[str]) -> tuple[tuple[CompiledOperators, ...], tuple[Problem, ...]]:
    """Finds libraries for the plugins of external operators, and all problems with them.

    names: of operators that are known; those of ours are left out.
    """
    wanted: dict[int, tuple[OperatorPackage, list[str]]] = {}
    for name in dict.fromkeys(names):
        package = package_of(name)
        if package is not None:
            wanted.setdefault(id(package), (package, []))[1].append(name)
    found: list[CompiledOperators] = []
    problems: list[Problem] = []
    for package, ops in wanted.values():
        libraries, faults = _of_package(package, ops)
        found += libraries
        problems += faults
    return tuple(found), tuple(problems)


def library_of(name: str) -> Path | None:
    """Finds the library of one operator's plugin; None for one of ours. Raises UsageError if none fits."""
    found, problems = compiled_operators([name])
    if problems:
        raise UsageError(problems)
    return found[0].path if found else None


def build_command(package: OperatorPackage) -> str:
    """Returns the command that compiles the package; DIR stands for an unknown folder."""
    folder = module_folder(package)
    above = (folder, *list(folder.parents)[:3]) if folder is not None else ()
    project = next((path for path in above if (path / SOURCES).is_file()), "DIR")
    return shlex.join(["trtsmith", "op", "build", str(project)])


def module_folder(package: OperatorPackage) -> Path | None:
    """Returns the folder of the package's module, beside which its libraries lie; None for a module without a file."""
    module = sys.modules.get(package.spec)
    file = package.spec if module is None else getattr(module, "__file__", None)
    return Path(file).parent if file and Path(file).is_file() else None


def _of_package(package: OperatorPackage, ops: list[str]) -> tuple[list[CompiledOperators], list[Problem]]:
    """The libraries, each with the operators that it is taken for: the first that has one."""
    problems: list[Problem] = []
    found: list[CompiledOperators] = []
    missing, others = list(ops), []
    for path in package.libraries:
        try:
            document = library_manifest(path)
        except UnreadableManifest as error:
            what = f"{package.name}: the plugin library cannot be used: {error}"
            expected = "a library that `trtsmith op build` made on a machine like this one"
            problems.append(Problem(what, str(path), expected, build_command(package)))
            continue
        if document["interface"] != INTERFACE:
            continue
        entries = {entry["name"]: entry for entry in document["operators"]}
        others += list(entries)
        here = [name for name in missing if name in entries]
        missing = [name for name in missing if name not in entries]
        for name in here:
            problems += _differing(package, path, name, entries[name])
        if here:
            found.append(CompiledOperators(path, package, document["cuda_architectures"], tuple(here)))
    if not problems:  # a library that does not load may be the one
        problems = [_not_compiled(package, name, others) for name in missing]
    return found, problems


def _differing(package: OperatorPackage, path: Path, name: str, entry: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            f"{package.name}: {name}: the library was compiled with {what} {compiled}, and the definition has {defined}",
            str(path),
            "a library and a definition that say the same",
            f"{build_command(package)}, after a change of both the definition and the binding",
        )
        for what, compiled, defined in differences(by_name()[name], entry)
    ]


def _not_compiled(package: OperatorPackage, name: str, others: list[str]) -> Problem:
    folder = module_folder(package)
    there = f"; there are plugins of {', '.join(others)}" if others else ""
    return Problem(
        f"{package.name}: the operator {name} has no compiled plugin{there}",
        str(folder / "lib") if folder is not None else package.name,
        f"a library lib*_plugins.so that has {PLUGIN_NAMESPACE}::{name}",
        f"{build_command(package)}; without a plugin, `trtsmith rewrite --expand` makes standard operators of it",
    )
