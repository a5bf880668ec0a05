"""The rules on modules: who may import whom, and how folders and files are separated.

Every import counts: those inside functions, and those for type checkers only.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Set
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ORDER = (
    "importers",
    "base",
    "model",
    "graph",
    "rewrite",
    "operators",
    "engine",
    "compile",
    "verify",
    "plugin",
    "scaffold",
    "convert",
    "locate",
    "bench",
    "tune",
    "samples",
    "pages",
    "batch",
    "cli",
    "polygraphy_extension",
)
"""Packages, lowest first: each may import itself and those before it. All but importers are converter's."""

ABOVE_THE_API = {"cli", "polygraphy_extension"}
"""Packages that may import the public API: the command line, and what other programs load of us."""


ONE_STRUCTURE = tuple(
    f"trtsmith.converter.graph.{name}" for name in ("graph", "infer_new", "node", "scope", "write_back")
)
"""The files of the one data structure whose classes name each other in annotations: a graph, its scopes, their nodes."""


COPIED = {ROOT / "converter" / "engine" / "bundle" / "triton_model.py"}
"""Files that are copied to where another program runs them, as a user of the public API; no module imports them."""

TENSORRT = ("tensorrt", "tensorrt_rtx", "tensorrt_libs", "tensorrt_rtx_libs")


def module_name(path: Path) -> str:
    """As it is imported: the two folders beside `trtsmith/` belong to its package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "trtsmith" else ("trtsmith", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def trees() -> dict[str, ast.Module]:
    """Of every module, by its name."""
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"))
        for path in (*source_files("converter", "importers"), *(ROOT / "trtsmith").glob("*.py"))
        if path not in COPIED
    }


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All that are in a module, or in another statement; expressions, which are most of a tree, hold none."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(tree, name, ())
        for node in inner if isinstance(inner, list) else ():  # an expression may be named body, too
            yield node
            yield from statements(node)


def imported(tree: ast.AST, modules: Set[str]) -> Iterator[str]:
    """Dotted names of what a module imports anywhere; `from package import module` counts as the module."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                full = f"{source}.{alias.name}"
                yield full if full in modules else source


@cache
def imports() -> dict[str, set[str]]:
    """What every module imports."""
    return {name: set(imported(tree, trees().keys())) for name, tree in trees().items()}


def package_of(module: str) -> str:
    """Of ORDER; "" for what is none of ours, and for the API, which no package imports."""
    first, _, rest = module.partition(".")
    top, _, inner = rest.partition(".")
    if first != "trtsmith":
        return ""
    return top if top == "importers" else inner.partition(".")[0]


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_comes_before_it(package: str) -> None:
    allowed = {*ORDER[: ORDER.index(package) + 1], *([""] if package in ABOVE_THE_API else [])}
    mine = {module: names for module, names in imports().items() if package_of(module) == package}
    assert mine
    ours = {
        (module, name) for module, names in mine.items() for name in names if name.split(".")[0] == "trtsmith"
    }
    assert sorted(pair for pair in ours if package_of(pair[1]) not in allowed) == []


def test_no_module_imports_relatively() -> None:
    assert [
        module for module, names in imports().items() if any(name.startswith(".") for name in names)
    ] == []


def test_no_modules_import_each_other() -> None:
    """But those of the one structure, which count as one."""
    edges = defaultdict(set)
    for module, names in imports().items():
        one, *others = ("graph" if name in ONE_STRUCTURE else name for name in (module, *names))
        edges[one].update({*others} - ({"graph"} if one == "graph" else set()))
    TopologicalSorter(edges).prepare()  # CycleError names the modules


def test_tensorrt_is_imported_by_name_alone() -> None:
    """Of the flavour that is asked for, by engine/builder/flavour.py."""
    libraries = {module: {name.split(".")[0] for name in names} for module, names in imports().items()}
    assert [module for module, names in libraries.items() if names & {*TENSORRT}] == []


def test_no_two_classes_share_a_name() -> None:
    """But `_Terminal`, the options of a command that only the terminal has."""
    places = defaultdict(list)
    for module, tree in trees().items():
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1}.keys() == {"_Terminal"}
