"""Calls the user's function that returns a PyTorch module and its example."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.base.user_function import import_file
from trtsmith.converter.convert.pytorch.torch_problems import raising_line
from trtsmith.converter.convert.pytorch.torch_source import TorchFactory, TorchModule
from trtsmith.converter.operators.module_files import module_name
from trtsmith.importers.problem import Problem

_MODULES = (torch.nn.Module, torch.export.ExportedProgram)
_PARTS = ("module", "args", "kwargs", "dynamic_shapes", "custom_translation_table")
_EXAMPLE = "(torch.rand(1, 3, 224, 224),)"
_FORMS = (
    "(module, args), (module, args, kwargs), (module, args, kwargs, dynamic_shapes), a dict or an object with "
    + ", ".join(_PARTS)
    + ", or a torch.export.ExportedProgram"
)


def called(factory: TorchFactory) -> TorchModule:
    """Calls the function for its module; a module, or a program, stands for itself. Raises UsageError if it is missing,
    raises, or returns anything else.
    """
    name, place, path = factory.name, factory.place, factory.function
    if factory.is_file and not Path(place).is_file():
        what = f"there is no file {place!r}"
        raise UsageError(what, name, "FILE.py:function of an existing file", "correct the path")
    try:
        function: Any = _of_file(Path(place).absolute()) if factory.is_file else import_module(place)
    except Exception as error:  # of the user's module
        raise UsageError(_raised(error, name, f"the module {place!r} cannot be imported")) from error
    for part in path.split("."):
        if not hasattr(function, part):
            near = nearest(part, dir(function))
            raise UsageError(
                f"the module {place!r} has no {path!r}",
                name,
                "package.module:function or FILE.py:function of an existing function",
                f"did you mean {near!r}?" if near else "correct the name",
            )
        function = getattr(function, part)
    if isinstance(function, _MODULES):
        return _with_example(_source(function, name), name, path, place)
    try:
        given = function()
    except Exception as error:  # of the user's function
        problem = _raised(error, name, f"{path} raised")
        if _is_class(function):
            problem = replace(problem, fix=_function_of(_instance(function, path) or f"{path}(...)", place))
        raise UsageError(problem) from error
    return _with_example(_source(given, name), name, f"{path}()", place)


def _with_example(source: TorchModule, name: str, written: str, place: str) -> TorchModule:
    """The source, if it has what torch.export needs. written: the module, as Python of `place` writes it."""
    if isinstance(source.module, torch.nn.Module) and source.args is None and not source.kwargs:
        raise UsageError(
            "the module has no example inputs",
            name,
            "a function that gives the module and its example arguments, with which torch.export traces it",
            _function_of(written, place),
        )
    return source


def _function_of(module: str, place: str) -> str:
    """How to write a function that gives the module and its example; for a module that may be installed, a file of it."""
    if place.endswith(".py"):
        return f"write a function, and give {place}:make: def make(): return {module}, {_EXAMPLE}"
    return (
        "write a file make_model.py, and give make_model.py:make:\n"
        f"import torch, {place}\ndef make(): return {place}.{module}, {_EXAMPLE}"
    )


def _is_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _instance(kind: type, name: str) -> str:
    """The call that makes an instance of a module's class, with the arguments that it needs; "" if it needs none."""
    needed = [
        f"{one.name}=..."
        for one in inspect.signature(kind).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    return f"{name}({', '.join(needed)})" if needed else ""


def _of_file(file: Path) -> ModuleType:
    """Imports the file as a module, within its package if it has one. Its folder is importable, as with `python FILE.py`."""
    name = module_name(file)
    sys.path.insert(0, str(file.parents[name.count(".")]))
    if "." in name:
        return import_module(name)
    return import_file(name, file)


def _source(given: Any, name: str) -> TorchModule:
    parts = _parts(given)
    held = given if parts is None else parts["module"]
    if _is_class(held):
        kind = held.__name__
        made = _instance(held, kind) or f"{kind}()"
        raise UsageError(
            f"the function gives the class {kind} in place of an instance",
            name,
            f"an instance of {kind}, and its example arguments",
            f"return {made}, {_EXAMPLE}" if parts is None else f"write {made} in place of {kind}",
        )
    if parts is None or not isinstance(parts["module"], _MODULES):
        raise UsageError(
            f"the function gives an object of the type {type(given).__name__}",
            name,
            _FORMS,
            f"return the module and its example arguments: return module, {_EXAMPLE}",
        )
    return TorchModule(
        parts["module"],
        parts.get("args"),
        parts.get("kwargs") or {},
        parts.get("dynamic_shapes"),
        parts.get("custom_translation_table") or {},
    )


def _parts(given: Any) -> dict[str, Any] | None:
    """The parts of the returned value by name; None if it has none."""
    if isinstance(given, _MODULES):
        return {"module": given}
    if isinstance(given, tuple) and 1 <= len(given) <= len(_PARTS):
        return dict(zip(_PARTS, given, strict=False))
    if isinstance(given, Mapping):
        return {part: given.get(part) for part in _PARTS}
    if hasattr(given, "module"):
        return {part: getattr(given, part, None) for part in _PARTS}
    return None


def _raised(error: Exception, name: str, what: str) -> Problem:
    said = " ".join(str(error).split())[:500]
    return Problem(
        f"{what}: {type(error).__name__}: {said}",
        f"{name}{raising_line(error)}",
        "a function without arguments that gives a module and its example",
        "correct it; it runs in this folder, which is on the module path",
    )
