"""Loads operator packages, and activates them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeVar

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.operators.conflicts import check_clashes
from trtsmith.converter.operators.definition_check import checked_operators
from trtsmith.converter.operators.module_files import load_module, module_name
from trtsmith.converter.operators.own_process import own_process
from trtsmith.converter.operators.sources import VARIABLE, OperatorSource, from_environment, sources
from trtsmith.converter.operators.used_files import recorded_import
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import packages_in_force, using

P = ParamSpec("P")
T = TypeVar("T")

LIBRARIES = "lib"
"""The folder beside a module that has the compiled libraries of its operators."""


def load_package(source: OperatorSource, others: Iterable[OperatorPackage] = ()) -> OperatorPackage:
    """Loads the package of one source. Raises UsageError. others: packages that stay active."""
    module = load_module(source, {_module(package.spec).partition(".")[0] for package in others})
    operators = checked_operators(module, source)
    spec = _spec(module)
    if os.pathsep in spec:
        what = f"its path has a {os.pathsep!r}, which separates paths in {VARIABLE}"
        raise source.problem(what, spec, "a path by which child processes find it, too", "rename the folder")
    return OperatorPackage(source.said, operators, _libraries(module), spec)


@contextmanager
def operators_in_force(specs: Sequence[str] = (), *, installed: bool = True) -> Iterator[None]:
    """Activates the packages of specs, TRTSMITH_OPS and installed packages, beside those already active.

    specs:     FILE.py, FOLDER or dotted MODULE each.
    installed: whether the entry points of installed packages count.

    A package that is named twice counts once. UsageError for all that is wrong with packages, and with them beside one
    another and ours.
    """
    with using(_loaded(sources(specs, installed=installed))):
        yield


def with_operators_of_parent(work: Callable[P, T]) -> Callable[P, T]:
    """Runs a child's work with the packages that are active in its parent."""

    @wraps(work)
    def known(*arguments: P.args, **named: P.kwargs) -> T:
        with own_process(), using(_loaded(from_environment())):
            return work(*arguments, **named)

    return known


def _loaded(named: Iterable[OperatorSource]) -> tuple[OperatorPackage, ...]:
    packages = list(packages_in_force())
    problems: list[Problem] = []
    for source in named:
        try:
            with recorded_import(source.spec) as roots:
                package = load_package(source, packages)
                roots.add(_module(package.spec).partition(".")[0])
        except UsageError as error:
            problems += error.problems
            continue
        if _identity(package) not in map(_identity, packages):
            packages.append(package)
    problems += check_clashes(packages)
    if problems:
        raise UsageError(problems)
    return tuple(packages)


def _spec(module: ModuleType) -> str:
    """What finds the module again, whatever working folder and path of modules the other process has.

    A module that has no folder of its own package, or lies in a namespace, is found by its name alone.
    """
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__
    path = Path(file).absolute()
    return str(path) if module_name(path) == module.__name__ else module.__name__


def _module(spec: str) -> str:
    """The name of the module that a package's spec means."""
    return module_name(Path(spec)) if os.sep in spec else spec


def _identity(package: OperatorPackage) -> str:
    """The same for two packages of one file."""
    module = sys.modules.get(package.spec)
    file = package.spec if module is None else getattr(module, "__file__", None)
    return os.path.realpath(file) if file else package.spec


def _libraries(module: ModuleType) -> tuple[Path, ...]:
    file = getattr(module, "__file__", None)
    folder = Path(file).absolute().parent / LIBRARIES if file is not None else None
    return tuple(sorted(folder.glob("lib*_plugins*.so"))) if folder is not None else ()
