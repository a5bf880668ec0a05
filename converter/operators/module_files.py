"""Finds and imports the module of a spec: a file, a folder, or a dotted name."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Collection
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import RLock
from types import ModuleType

from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.base.user_function import import_file
from trtsmith.converter.operators.package_files import outermost_folder, package_of_folder
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.converter.operators.watched_import import import_watched

_FORMS = "FILE.py, the FOLDER of a package or of a project that `trtsmith op new` wrote, or a dotted MODULE"
_MARK = "__trtsmith_files__"
"""Attribute of a module that was loaded from a path: its files, as they were."""

_ONE_AT_A_TIME = RLock()
"""Held by the thread that looks up, forgets or imports modules, which all threads share."""

LOADED = "trtsmith_ops_"
"""With what the names of modules begin that are files by themselves."""


def load_module(source: OperatorSource, in_use: Collection[str] = ()) -> ModuleType:
    """Imports the module. Raises UsageError if it is missing or fails.

    A path is looked for first. A file in a package folder is a module of that package, so that relative imports work; one
    outside of any gets a name of its own. What was loaded from a path is loaded again where one of its files has changed.
    in_use: names of top-level modules that others have loaded from paths, and that must stay.
    """
    with _ONE_AT_A_TIME:
        return _found(source, in_use)


def _found(source: OperatorSource, in_use: Collection[str]) -> ModuleType:
    spec = source.spec
    if spec.endswith(".py") or os.sep in spec or spec in (".", "..") or os.path.exists(spec):
        return _from_path(source, _file_of(source, Path(os.path.abspath(spec))), in_use)
    if not all(part.isidentifier() for part in spec.split(".")):
        what = "there is no such file or folder"
        raise source.problem(what, str(Path(spec).absolute()), _FORMS, "correct the path")
    return import_watched(lambda: _dotted(source), source)


def _dotted(source: OperatorSource) -> ModuleType:
    try:
        return import_module(source.spec)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source.spec}.".startswith(f"{error.name}."):
            raise
        what = f"there is no module {error.name!r}"
        where = f"Python's path; nor is there a file or folder {source.spec!r} in {Path.cwd()}"
        near = nearest(
            source.spec, (one.name for one in Path().iterdir() if one.is_dir() or one.suffix == ".py")
        )
        fix = f"did you mean {near}? " if near else ""
        raise source.problem(
            what, where, _FORMS, f"{fix}install the package, or give the path of its file"
        ) from None


def _file_of(source: OperatorSource, path: Path) -> Path:
    """The file that has to be loaded. UsageError if the path holds none."""
    try:
        if path.is_dir():
            return _package(source, path) / "__init__.py"
        if not path.exists():
            what, fix = "there is no such file or folder", "correct the path"
        elif path.suffix != ".py":
            what, fix = f"{path.name} is no Python source", "name the .py file that has OPERATORS"
        else:
            with open(path, "rb"):
                return path
    except OSError as error:
        what, fix = f"it cannot be read: {error.strerror}", "make it readable"
    raise source.problem(what, str(path), _FORMS, fix)


def _package(source: OperatorSource, folder: Path) -> Path:
    """The folder itself, or the one package of the project in it."""
    inner = package_of_folder(folder)
    if len(inner) == 1:
        return inner[0]
    names = ", ".join(path.name for path in inner[:8])
    what = f"it holds {len(inner)} packages: {names}" if inner else "it holds no Python package"
    fix = (
        f"name one of them: {inner[0]}" if inner else "name the folder that has an __init__.py, or a FILE.py"
    )
    raise source.problem(
        what, str(folder), "a folder with an __init__.py, or with one such folder in it", fix
    )


def module_name(file: Path) -> str:
    """Derives the module name of a file from its path. A part may not be a valid identifier."""
    root = outermost_folder(file)
    if root == file:
        return f"{LOADED}{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    inner = file.relative_to(root).with_suffix("").parts
    return ".".join((root.name, *(inner[:-1] if inner[-1] == "__init__" else inner)))


def _from_path(source: OperatorSource, file: Path, in_use: Collection[str]) -> ModuleType:
    root, name = outermost_folder(file), module_name(file)
    if root == file:
        return _loaded(source, name, file, name, in_use)
    for part in name.split("."):
        if not part.isidentifier():
            what = f"{part!r} is no name for a Python module"
            raise source.problem(what, str(root), "letters, digits and underscores", "rename it")
    return _loaded(source, root.name, root / "__init__.py", name, in_use)


def _loaded(
    source: OperatorSource, root_name: str, root_file: Path, name: str, in_use: Collection[str]
) -> ModuleType:
    """The module `name` of the top-level module in root_file, which is loaded unless it is there as it now is."""
    there = sys.modules.get(root_name)
    if there is not None and _same(getattr(there, "__file__", None), root_file):
        if getattr(there, _MARK, None) in (None, _files(root_name)):  # imported by someone else, or unchanged
            return import_watched(lambda: import_module(name), source)
        _forget(root_name)
    elif hasattr(there, _MARK) and root_name not in in_use:  # of a call that has ended
        _forget(root_name)
    other = _elsewhere(root_name, root_file)
    if other:
        what = f"there are two modules called {root_name!r}, and Python can have one"
        fix = f"rename the folder, or take the other one: --ops {root_name}; one that is installed can be uninstalled"
        raise source.problem(what, f"{root_file} and {other}", "a name that no other module has", fix)
    return import_watched(lambda: _first(root_name, root_file, name), source)


def _first(root_name: str, root_file: Path, name: str) -> ModuleType:
    """Load the top-level module from its file, then the module inside of it."""
    folders = [str(root_file.parent)] if root_file.name == "__init__.py" else None
    try:
        module = import_file(root_name, root_file, folders)
        found = import_module(name)
    except BaseException:
        _forget(root_name)
        raise
    setattr(module, _MARK, _files(root_name))
    return found


def _files(root_name: str) -> dict[str, tuple[int, int]]:
    """Time and size of the files of a top-level module and of all below it that were imported."""
    found = {}
    for name in _family(root_name):
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None:
            try:
                state = os.stat(file)
                found[file] = (state.st_mtime_ns, state.st_size)
            except OSError:
                found[file] = (0, 0)
    return found


def _forget(root_name: str) -> None:
    for name in _family(root_name):
        del sys.modules[name]


def _family(root_name: str) -> list[str]:
    return [name for name in list(sys.modules) if name == root_name or name.startswith(f"{root_name}.")]


def _elsewhere(name: str, file: Path) -> str:
    """Where the module is that Python has or would import under this name; "" for none, or the file itself."""
    if name in sys.modules:
        found = getattr(sys.modules[name], "__file__", None) or "Python itself"
    else:
        try:
            spec: ModuleSpec | None = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return ""
        found = None if spec is None else spec.origin
    return "" if found is None or _same(found, file) else found


def _same(file: str | None, other: Path) -> bool:
    return file is not None and os.path.realpath(file) == os.path.realpath(other)
