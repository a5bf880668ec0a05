"""Gives one digest for all files of a folder: of trtsmith's own sources, which are the rules, and of operator packages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from trtsmith.converter.model.process.package_folders import PACKAGE, SOURCES
from trtsmith.converter.operators.sources import GROUP

_NOT_READ = frozenset({"__pycache__", "lib", "plugins_cpp"})
"""Of trtsmith's own: plugin libraries are hashed apart, and the headers beside them are for users' operators alone."""


def rules_digest(package: Path = PACKAGE, sources: Path = SOURCES) -> str:
    """SHA-256 over names and bytes of trtsmith's own Python sources and tables, equal for a checkout and its wheel.

    sources: holds `converter` and `importers`.
    """
    files = dict(_files(package, _NOT_READ))
    for folder in ("converter", "importers"):
        files |= {f"{folder}/{name}": path for name, path in _files(sources / folder, _NOT_READ)}
    return _digest(files)


def operators_digest(environment: str) -> str | None:
    """SHA-256 over the operator packages that TRTSMITH_OPS names, without importing any; None: one cannot be read.

    environment: the value of the variable.
    """
    return _together([spec for spec in environment.split(os.pathsep) if spec])


def packages_digest() -> str | None:
    """SHA-256 over the operator packages that entry points of installed packages name; None: one cannot be read."""
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return _together([point.value.partition(":")[0].strip() for point in points])


def _together(specs: list[str]) -> str | None:
    digests = []
    for spec in specs:
        root = _root_of(spec)
        if root is None:
            return None
        try:
            digests.append(_folder(root) if root.is_dir() else _file_with_libraries(root))
        except OSError:
            return None
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def _root_of(spec: str) -> Path | None:
    """The outermost folder of the package that a spec names, or the file of a module that lies in none."""
    path = Path(os.path.abspath(spec))
    if path.exists():
        path = path.parent if path.name == "__init__.py" else path
        while (path.parent / "__init__.py").exists():
            path = path.parent
        return path
    found = PathFinder.find_spec(spec.partition(".")[0])
    if found is None or found.origin is None:
        return None
    origin = Path(found.origin)
    return origin.parent if found.submodule_search_locations else origin


def _file_with_libraries(file: Path) -> str:
    libraries = sorted((file.parent / "lib").glob("lib*_plugins*.so"))
    digest = hashlib.sha256()
    for path in (file, *libraries):
        _add(digest, path.name, path)
    return digest.hexdigest()


def _folder(folder: Path) -> str:
    return _digest(dict(_files(folder, frozenset({"__pycache__"}))))


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        _add(digest, name, path)
    return digest.hexdigest()


def _files(folder: Path, left_out: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """(name from the folder on, path); links to folders are followed, for what they lead to is imported too."""
    seen = set()
    for above, folders, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(above))
        folders[:] = [
            name
            for name in folders
            if name not in left_out and os.path.realpath(os.path.join(above, name)) not in seen
        ]
        for name in names:
            path = Path(above, name)
            if not name.endswith(".pyc") and path.is_file():  # an editor's lock is a link to nothing
                yield path.relative_to(folder).as_posix(), path


def _add(digest: hashlib._Hash, name: str, path: Path) -> None:
    data = path.read_bytes()
    digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape"))
    digest.update(data)
