"""Checks the types of the public API's arguments, and shows the expected ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem
from trtsmith.options import CHOICES, spelled_out

P = ParamSpec("P")
T = TypeVar("T")
_MOST_SHOWN = 60


@dataclass(frozen=True)
class _Kind:
    """What an annotation of the API takes. expected, example: for messages."""

    takes: Callable[[Any], bool]
    expected: str
    example: str


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _several(takes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """One, or a collection of them."""
    return lambda value: (
        takes(value) or (isinstance(value, (list, tuple, set, frozenset)) and all(map(takes, value)))
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TEXTS = _several(_is_text)
_KINDS: Mapping[str, _Kind] = {
    "None": _Kind(lambda value: value is None, "None", "None"),
    "StrPath": _Kind(_is_path, "a path", '"folder/file"'),
    "Paths": _Kind(_several(_is_path), "a path, or a list of paths", '["folder/file"]'),
    "Texts": _Kind(_TEXTS, "a text, or a list of texts", '["a", "b"]'),
    "Ranges": _Kind(
        lambda value: _TEXTS(value) or _several(lambda one: isinstance(one, Mapping))(value),
        "by the input's name one range or three, or texts as the flag takes them",
        '{"x": [(1, 4), (2, 4), (8, 4)]}, or "x=1x4:2x4:8x4"',
    ),
    "Freeze": _Kind(
        lambda value: _TEXTS(value) or isinstance(value, Mapping),
        "values by the input's name, or texts as the flag takes them",
        '{"axes": [0, 1]}, or "axes=[0,1]"',
    ),
    "Tolerance": _Kind(
        lambda value: _TEXTS(value) or isinstance(value, (Real, Mapping)),
        "a number, or numbers by the output's name",
        '1e-3, or {"y": 1e-3}',
    ),
    "References": _Kind(
        lambda value: _TEXTS(value) or callable(value) or isinstance(value, Mapping),
        "a function or its name, or functions by operator",
        '"my_model:compute", or {"MyOp": compute}',
    ),
    "Progress": _Kind(callable, "a function of a line of text", "print"),
    "int": _Kind(lambda value: isinstance(value, Real), "a whole number", "4"),
    "float": _Kind(lambda value: isinstance(value, Real), "a number", "1.5"),
    **dict.fromkeys(("str", *CHOICES), _Kind(_is_text, "a text", '"text"')),
}
"""By the name that stands in an annotation. An annotation with another name in it is not checked here."""

_EXAMPLES = {
    "values": '{"sizes": [[1, 1], [2, 3], [8, 8]]}, or "sizes=[1,1]:[2,3]:[8,8]"',
    "target": '"sm86,sm89", or ["sm86", "sm89"]',
}
"""By argument, where the example of its kind does not fit."""


def checked_types(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with a UsageError for arguments that are of other types than it is annotated with."""
    signature = spelled_out(function)

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        given = signature.bind(*arguments, **named).arguments
        problems = [
            problem
            for name, value in given.items()
            if (problem := _fault(name, value, signature.parameters[name].annotation))
        ]
        if problems:
            raise UsageError(problems)
        return function(*arguments, **named)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _fault(name: str, value: Any, annotation: str) -> Problem | None:
    kinds = [_KINDS.get(part.strip()) for part in annotation.split("|")]
    if any(kind is None or kind.takes(value) for kind in kinds):
        return None
    known = [kind for kind in kinds if kind is not None and kind is not _KINDS["None"]]
    text = repr(value)
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    example = _EXAMPLES.get(name, known[0].example)
    return Problem(
        f"{name} is of the type {type(value).__name__}",
        f"{name}={shown}",
        " or ".join(kind.expected for kind in known),
        f"write it as {name}={example}",
    )
