"""The rules of the house about modules: who may import whom, and how folders and files are kept apart.

Every import counts: those inside functions, and those for type checkers only.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ORDER = (
    "importers",
    "model",
    "graph",
    "rewrite",
    "operators",
    "engine",
    "compile",
    "verify",
    "plugin",
    "convert",
    "locate",
    "bench",
    "scaffold",
    "pages",
    "batch",
    "cli",
    "polygraphy_extension",
)
"""Packages, lowest first: each may import itself and those before it. All but importers are converter's."""

ABOVE_THE_API = {"cli", "polygraphy_extension"}
"""Packages that may import the public API: the command line, and what other programs load of us."""

OUTSIDE_IMPORTERS = {"ml_dtypes", "numpy", "onnx", "onnxscript", "torch", "torchvision"}
"""What importers may import of other projects. The last three inside functions only, but for torch_ops and torch."""

LIBRARIES_OF_EXTRAS = {
    "polygraphy": ({"verify.polygraphy_files"}, {"polygraphy_extension"}),
    "ray": ({f"batch.{name}" for name in ("fleet", "ray_connection")}, set[str]()),
}
"""By library: the modules that import it inside functions, and the packages that may at the top."""

ONE_STRUCTURE = tuple(
    f"trtsmith.converter.graph.{name}" for name in ("graph", "infer_new", "node", "scope", "write_back")
)
"""The files of the one data structure whose classes name each other in annotations: a graph, its scopes, their nodes."""

IMPORT_BY_NAME = {
    "engine.build.flavour": "TensorRT, of the flavour that is asked for",
    "engine.runtime.device": "CUDA's bindings, which a build needs not",
    "cli.main": "the command that is asked for",
    "operators.module_files": "the user's own operators",
    "model.user_function": "the user's own module",
    "convert.pytorch.factory": "the user's own module",
    "convert.pytorch.saved_program": "an installed package whose operators a program calls",
    "trtsmith": "the home of a public name",
}
"""Modules that import what is named at run time. flavour is the one through which all of converter gets TensorRT."""

TENSORRT = ("tensorrt", "tensorrt_rtx", "tensorrt_libs", "tensorrt_rtx_libs")

MOST_PACKAGES = 16
MOST_MODULES = 25
MOST_OF_A_NAME = 2


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


def cycles(edges: Mapping[str, Set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, or of one that imports itself (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in edges[module] & edges.keys():
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            start = stack.index(module)
            members = stack[start:]
            del stack[start:]
            if len(members) > 1 or module in edges[module]:
                found.append(sorted(members))

    for module in edges:
        if module not in index:
            visit(module)
    return found


def test_imports_inside_functions_and_for_type_checkers_are_seen() -> None:
    tree = ast.parse(
        "if TYPE_CHECKING:\n    from a import b\ndef f():\n    import c.d\n    from . import e\nfrom a import g"
    )
    assert set(imported(tree, {"a.b"})) == {"a.b", "a", "c.d", "."}


def test_a_cycle_is_found_however_long_it_is() -> None:
    edges = {"a": {"b", "x"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}
    assert cycles(edges) == [["a", "b", "c"], ["e"]]


def test_every_package_has_its_place_in_the_order() -> None:
    packages = {path.parent.name for path in (ROOT / "converter").glob("*/__init__.py")}
    assert packages == set(ORDER) - {"importers"}
    assert len(packages) <= MOST_PACKAGES
    assert {path.name for path in (ROOT / "converter").glob("*.py")} == {"__init__.py"}


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_comes_before_it(package: str) -> None:
    allowed = {*ORDER[: ORDER.index(package) + 1], *([""] if package in ABOVE_THE_API else [])}
    mine = {module: names for module, names in imports().items() if package_of(module) == package}
    assert mine
    ours = {
        (module, name) for module, names in mine.items() for name in names if name.split(".")[0] == "trtsmith"
    }
    assert sorted(pair for pair in ours if package_of(pair[1]) not in allowed) == []


@pytest.mark.parametrize("library", LIBRARIES_OF_EXTRAS)
def test_a_library_of_an_extra_is_imported_where_it_is_asked_for(library: str) -> None:
    """At the top of a module only in what that library itself loads."""
    inside, loaded_by_it = LIBRARIES_OF_EXTRAS[library]
    users = {
        module for module, names in imports().items() if library in {name.split(".")[0] for name in names}
    }
    at_the_top = {
        module
        for module in users
        if any(
            name.split(".")[0] == library
            for name in imported(
                ast.Module([n for n in trees()[module].body if "Import" in type(n).__name__], []), set()
            )
        )
    }
    assert {package_of(module) for module in at_the_top} == loaded_by_it
    assert users - at_the_top == {f"trtsmith.converter.{module}" for module in inside}


def test_no_module_imports_relatively() -> None:
    assert [
        module for module, names in imports().items() if any(name.startswith(".") for name in names)
    ] == []


def test_no_modules_import_each_other() -> None:
    assert [sorted(cycle) for cycle in cycles(imports())] == [sorted(ONE_STRUCTURE)]


def test_tensorrt_comes_through_one_module() -> None:
    named = {
        module for module, names in imports().items() if any(name.split(".")[0] in TENSORRT for name in names)
    }
    assert named == set()
    by_name = {
        module.removeprefix("trtsmith.converter.")
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("import_module", "__import__")
    }
    assert by_name == IMPORT_BY_NAME.keys()


def test_importers_are_data_with_numpy_and_onnx() -> None:
    outside: defaultdict[str, set[str]] = defaultdict(set)
    for module, names in imports().items():
        if package_of(module) == "importers":
            for name in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"trtsmith"}:
                outside[name].add(module)
    assert outside.keys() == OUTSIDE_IMPORTERS
    at_the_top = {
        module
        for module in outside["torch"]
        if "torch"
        in imported(ast.Module([n for n in trees()[module].body if "Import" in type(n).__name__], []), set())
    }
    assert at_the_top == {"trtsmith.importers.torch_ops"}


@pytest.mark.parametrize("folder", ["converter", "importers", "scripts", "models"])
def test_no_folder_is_too_full_to_look_through(folder: str) -> None:
    counts = Counter(path.parent for path in source_files(folder) if path.name != "__init__.py")
    assert counts
    assert {path.relative_to(ROOT): n for path, n in counts.items() if n > MOST_MODULES} == {}


def test_file_names_tell_modules_apart() -> None:
    named = defaultdict(list)
    for path in source_files("converter", "importers", "scripts", "models"):
        if path.name != "__init__.py":
            named[path.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in named.items() if len(paths) > MOST_OF_A_NAME} == {}
