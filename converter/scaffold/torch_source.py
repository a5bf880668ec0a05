"""Loads the function that an operator is drafted from; the package imports or copies it."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.operators.module_files import load_module
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.importers.problem import Problem

_FORM = "MODULE:FUNCTION or FILE.py:FUNCTION"


@dataclass(frozen=True)
class ImportedFunction:
    """name: of the function in its module. module: from which an installed one is imported; source: of a user's own file.

    One of module and source is empty. operator: of torch.library, made of the function, as "mycompany::fold"; or "".
    """

    function: Callable[..., Any]
    name: str
    module: str = ""
    source: bytes = b""
    operator: str = ""


def _registered(function: Callable[..., Any]) -> bool:
    """Whether it is an operator of torch.library."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.library.CustomOpDef)


def python_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the Python function behind a torch.library.custom_op; other functions unchanged."""
    return function._init_fn if _registered(function) else function  # type: ignore[attr-defined]  # not public


def text_hash(content: bytes) -> str:
    """Returns the SHA-256 of a source file's content, the same for LF and CRLF."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def is_unedited(beside: str, name: str, sha256: str) -> bool:
    """Whether the file of that name, in the same folder as another, has this text_hash still."""
    return text_hash(Path(beside).with_name(name).read_bytes()) == sha256


def load_function(spec: str) -> ImportedFunction:
    """Imports the function of "module:function". Raises UsageError."""
    where = f"--from-torch {spec}"
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise UsageError(f"{spec!r} names no function", where, _FORM, "--from-torch mymodule:my_function")
    file = Path(*place.split(".")).with_suffix(".py")
    found = str(file) if not place.endswith(".py") and file.is_file() else place
    try:
        module = load_module(OperatorSource(found, where))
    except UsageError as error:
        expected = f"a module that can be imported, with the function {name}"
        raise UsageError([Problem(p.what, p.where, expected, p.fix) for p in error.problems]) from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = [
            key for key, value in vars(module).items() if callable(value) and not key.startswith("_")
        ]
        what = f"the module has no function {name!r}"
        listed = ", ".join(functions[:8]) or "none"
        raise UsageError(what, where, f"a function of the module: {listed}", "correct the name")
    path = Path(getattr(module, "__file__", None) or "")
    own = {"module": module.__name__} if is_installed(path) else {"source": standalone_source(path, where)}
    operator = function._qualname if _registered(function) else ""
    return ImportedFunction(python_function(function), name, operator=operator, **own)


def is_installed(path: Path) -> bool:
    """Whether the file is part of an installed package, or of Python."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    return any(path.resolve().is_relative_to(Path(folder).resolve()) for folder in folders if folder)


def standalone_source(path: Path, where: str) -> bytes:
    """Returns the source file, which must stand alone, since the package gets a copy of it."""
    content = path.read_bytes()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.ImportFrom) and node.level:
            needed = "." * node.level + (node.module or "")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            needed = next((name for name in names if _beside(path, name)), "")
        else:
            continue
        if needed:
            raise UsageError(
                f"{path.name} imports {needed} from the same folder",
                f"{where}, line {node.lineno} of {path}",
                "a file that imports nothing from its folder, since the package gets a copy of it; or a module of an "
                "installed package",
                "put the function and what it imports into one file, or install its package",
            )
    return content


def _beside(path: Path, name: str) -> bool:
    first = path.parent / name.partition(".")[0]
    return bool(name) and (first.with_suffix(".py").is_file() or (first / "__init__.py").is_file())
