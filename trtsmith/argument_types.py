"""Checks the types of the public API's arguments, and shows the expected ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.options.kinds import Kind, kind_of
from trtsmith.importers.problem import Problem
from trtsmith.options import keyword_options, spelled_out

P = ParamSpec("P")
T = TypeVar("T")
_MOST_SHOWN = 60


def checked_types(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with a UsageError for arguments that are of other types than it is annotated with."""
    signature = spelled_out(function)
    kinds = {name: kind_of(one.annotation) for name, one in signature.parameters.items()}
    kinds |= {option.name: option.kind for option in keyword_options(function)}

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        given = signature.bind(*arguments, **named).arguments
        problems = [
            problem
            for name, value in given.items()
            if (problem := _fault(name, value, signature.parameters[name].annotation, kinds[name]))
        ]
        if problems:
            raise UsageError(problems)
        return function(*arguments, **named)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _fault(name: str, value: Any, annotation: str, kind: Kind | None) -> Problem | None:
    if kind is None or kind.takes(value) or (value is None and annotation.endswith("None")):
        return None
    text = repr(value)
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    what = f"{name} is of the type {type(value).__name__}"
    return Problem(what, f"{name}={shown}", kind.expected, f"write it as {name}={kind.example}")
