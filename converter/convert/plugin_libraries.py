"""Finds the plugin libraries that a planned graph needs: trtsmith's, and those of operators from outside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.engine import libraries
from trtsmith.converter.operators.compiled import compiled_operators
from trtsmith.importers.registry import package_of


def with_libraries(planned: Plan) -> Plan:
    """The plan with the libraries of operators from outside, and with the problems of those that are missing or wrong."""
    compiled, problems = compiled_operators(use.name for use in planned.plugins)
    return replace(planned, compiled=compiled, problems=(*planned.problems, *problems))


def needed_libraries(planned: Plan, given: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Every library to load, each once: ours first, those of operators from outside, and those that the user gives.

    UsageError where ours is needed and not there.
    """
    ours = any(package_of(use.name) is None for use in planned.plugins)
    found = (
        *((libraries.plugin_library(),) if ours else ()),
        *(library.path for library in planned.compiled),
        *given,
    )
    return tuple({os.path.realpath(path): path for path in reversed(found)}.values())[::-1]


def library_of_plugins(planned: Plan, loaded: tuple[Path, ...] = ()) -> dict[str, Path]:
    """The library of each plugin of the plan, by its name.

    loaded: copies beside an engine; one of the same file name is taken, as the engine runs it.
    """
    outside = {name: library.path for library in planned.compiled for name in library.operators}
    copies = {path.name: path for path in loaded}
    found = {}
    for use in planned.plugins:
        path = outside[use.name] if use.name in outside else libraries.plugin_library()
        found[use.name] = copies.get(path.name, path)
    return found
