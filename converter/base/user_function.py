"""Loads and calls the user's functions, named MODULE:FUNCTION; errors in them become messages with the line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.base.torch_arrays import from_torch, to_torch
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import packages_in_force

Function = Callable[..., Any]


class UserFunctionError(UsageError):
    """A function of the user failed, or returned an invalid result."""


@dataclass(frozen=True)
class UserFunction:
    """A function that the user named. name: as given. flag: for messages."""

    name: str
    function: Function
    flag: str = "--reference"

    def call(
        self, inputs: Sequence[np.ndarray | None], keywords: Mapping[str, Any], what: str
    ) -> tuple[np.ndarray, ...] | dict[str, np.ndarray]:
        """Calls the function. Returns its results as arrays. what: what it computes, for messages.

        It gets numpy arrays, or PyTorch tensors if a parameter of it is annotated as one or if it is a module.
        UserFunctionError for what it raises, with its line, and for what is neither arrays nor tensors.
        """
        tensors = self._wants_tensors()
        given = [to_torch(one) if tensors and one is not None else one for one in inputs]
        try:
            found = self.function(*given, **keywords)
        except Exception as error:
            raise UserFunctionError(self._raised(error, what)) from error
        try:
            if isinstance(found, Mapping):
                return {str(name): _array(one) for name, one in found.items()}
            several = isinstance(found, (tuple, list))
            return tuple(_array(one) for one in found) if several else (_array(found),)
        except (TypeError, ValueError) as error:
            expected = "numpy arrays or PyTorch tensors: one, or a tuple of them"
            raise UserFunctionError(
                f"{self.name} returned no array: {error}",
                f"{self.flag} {self.name}, {what}",
                expected,
                "return it",
            ) from error

    def _wants_tensors(self) -> bool:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(self.function, (torch.nn.Module, torch.library.CustomOpDef)):
            return True
        notes = getattr(self.function, "__annotations__", {})
        return any("Tensor" in str(note) for name, note in notes.items() if name != "return")

    def _raised(self, error: Exception, what: str) -> Problem:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if frame.filename != __file__]
        place = f", {theirs[-1].filename}, line {theirs[-1].lineno}" if theirs else ""
        mistaken = isinstance(error, TypeError) and not theirs
        said = str(error).partition("\n")[0]
        arrays = (
            "" if self._wants_tensors() else ", which gets numpy arrays: PyTorch tensors with a parameter "
        )
        fix = "correct the function" + (arrays and f"{arrays}that is annotated torch.Tensor")
        return Problem(
            f"{self.name} failed: {type(error).__name__}: {said}",
            f"{self.flag} {self.name}{place}, {what}",
            "a function that takes the inputs in their order"
            + (", and the node's attributes as keywords" if mistaken else ", and returns the outputs"),
            "correct its parameters" if mistaken else fix,
        )


def load_user_function(spec: str, flag: str) -> UserFunction:
    """Loads the function of "MODULE:FUNCTION", a module on the Python path or in the working folder, or "FILE.py:FUNCTION".

    Runs the module's code. UsageError if there is none, and for what its import raises, with the line.
    """
    module_name, _, name = spec.partition(":")
    where = f"{flag} {spec}"
    expected = "MODULE:FUNCTION, a function in a module on the Python path or in the working folder, or FILE.py:FUNCTION"
    if not module_name or not name:
        raise UsageError(f"{spec!r} names no function", where, expected, f"{flag} my_model:compute")
    try:
        _define_operators()
        module = _imported(module_name)
    except Exception as error:  # whatever the user's module raises while it is imported
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
        place = f", {theirs[-1].filename}, line {theirs[-1].lineno}" if theirs else ""
        what = f"the function cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(what, where + place, expected, "correct the name or the module") from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        what = f"{name!r} is not a function of {module_name}"
        raise UsageError(what, where, expected, _meant(module, module_name, name))
    return UserFunction(spec, found, flag)


def _meant(module: ModuleType, module_name: str, name: str) -> str:
    """The fix for a name that is no function: the nearest one of the module's."""
    near = nearest(name, (one for one, value in vars(module).items() if inspect.isfunction(value)))
    return f"did you mean {module_name}:{near}?" if near else "correct the name"


def _imported(name: str) -> ModuleType:
    """Imports a module by its name, or runs a FILE.py, which may import what is beside it."""
    if not name.endswith(".py"):
        with _importable(os.getcwd()):
            return importlib.import_module(name)
    file = Path(name).absolute()
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {name}")
    with _importable(str(file.parent)):
        return import_file(str(file), file)  # another json.py stays what it is


def import_file(name: str, file: Path, folders: list[str] | None = None) -> ModuleType:
    """Runs the file as the module `name`. folders: of its submodules, if it is a package. Raises what its code raises."""
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _define_operators() -> None:
    """PyTorch gets the operators from outside that are in force, which the user's module may use."""
    if not packages_in_force() or importlib.util.find_spec("torch") is None:
        return
    from trtsmith.importers.torch_ops import define_known

    define_known()


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Python finds modules in the folder, as `python -m` does in the working folder."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module has changed the path itself
            sys.path.remove(folder)


def _array(value: Any) -> np.ndarray:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return from_torch(value)
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise TypeError(f"{type(value).__name__} is not an array")
    return array
