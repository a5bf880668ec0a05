"""Lists the files of an operator package, for the cache's keys and for other machines."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from trtsmith.importers.opdef import OpDef

FUNCTION_FILE = "function.py"
"""The copy of a PyTorch function's file, beside the definition that `op new --from-torch` wrote of it."""

_NOT_READ = frozenset({"__pycache__", ".git"})


def computed_in(op: OpDef) -> Path:
    """Returns the file of an operator from outside in which its computation is written."""
    definition = Path(inspect.unwrap(op.expand).__code__.co_filename)
    function = definition.with_name(FUNCTION_FILE)
    return function if function.is_file() else definition


def outermost_folder(file: Path) -> Path:
    """Returns the outermost folder of the package that a module's file is in; the file itself if there is none."""
    root = file.parent if (file.parent / "__init__.py").exists() else file
    while root.is_dir() and (root.parent / "__init__.py").exists():
        root = root.parent
    return root


def package_of_folder(folder: Path) -> tuple[Path, ...]:
    """Returns the folder if it is a package; else the packages of the project in it. OSError if it cannot be read."""
    if (folder / "__init__.py").exists():
        return (folder,)
    return tuple(
        path
        for path in (*sorted(folder.iterdir()), *sorted((folder / "src").glob("*")))
        if path.name not in ("tests", "test") and (path / "__init__.py").exists()
    )


def files_of_path(path: Path) -> tuple[Path, tuple[Path, ...]]:
    """Returns (root, files) of the package that loading this path imports: a folder, or a module's file.

    The root is the outermost package, with everything in it but Python's caches; of a module outside any package the
    file, with the libraries beside it.
    """
    if path.is_dir():
        inner = package_of_folder(path)
        root = outermost_folder(inner[0] / "__init__.py") if len(inner) == 1 else path
    else:
        root = outermost_folder(path)
    return root, (*tree(root),) if root.is_dir() else (root, *tree(root.parent / "lib"))


def files_of_module(name: str) -> tuple[Path, tuple[Path, ...]]:
    """Returns the same for a module by its dotted name, without importing any. OSError if Python's path lacks its files."""
    found = PathFinder.find_spec(name.partition(".")[0])
    if found is None or found.origin is None or not os.path.isfile(found.origin):
        raise FileNotFoundError(2, "no module's file", name)
    if not found.submodule_search_locations:
        file = Path(found.origin)
        return file, (file, *tree(file.parent / "lib"))
    folders = tuple(map(Path, found.submodule_search_locations))
    return folders[0], tuple(file for folder in folders for file in tree(folder))


def tree(folder: Path, left_out: frozenset[str] = _NOT_READ) -> Iterator[Path]:
    """Lists all files below a folder, sorted in each. Links to folders are followed, as Python does; circles once."""
    yield from _below(folder, left_out, frozenset())


def _below(folder: Path, left_out: frozenset[str], above: frozenset[str]) -> Iterator[Path]:
    here = os.path.realpath(folder)
    if here in above or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in left_out:
                yield from _below(path, left_out, above | {here})
        elif path.is_file():
            yield path
