"""Checks the values of dataclasses against the types of their fields."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


def nonconforming(value: Any, where: str) -> Iterator[tuple[str, str, str]]:
    """Yields (place, value, expected type) for every field of a dataclass that holds a value of another type."""
    kind: Any = type(value)
    for name, hint in _hints(kind).items():
        yield from _held(getattr(value, name), hint, f"{where}.{name}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _held(value: Any, hint: Any, where: str) -> Iterator[tuple[str, str, str]]:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or (origin is None and isinstance(hint, type) and _is(value, hint)):
        if is_dataclass(value) and not isinstance(value, type):
            yield from nonconforming(value, where)
    elif origin in (Union, types.UnionType):
        found = [list(_held(value, part, where)) for part in parts]
        if all(found):  # none of them; tell of the one that fits but for something inside it
            deeper = [faults for faults in found if faults[0][0] != where]
            yield from deeper[0] if deeper else [(where, _said(value), _name(hint))]
    elif origin is tuple and isinstance(value, tuple) and (parts[-1] is ... or len(parts) == len(value)):
        kinds = [parts[0]] * len(value) if parts[-1] is ... else parts
        for index, (item, kind) in enumerate(zip(value, kinds, strict=True)):
            yield from _held(item, kind, f"{where}[{index}]")
    elif origin is not None and _is_mapping(origin) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _held(key, parts[0], f"{where}: key {key!r}")
            yield from _held(item, parts[1], f"{where}[{key!r}]")
    elif not (origin is Callable and callable(value)):
        yield where, _said(value), _name(hint)


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, kind)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _said(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # of a class of the user's
        text = "something"
    return f"{text[:80]}{'...' * (len(text) > 80)} ({type(value).__name__})"


def _name(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Callable:
        return "a function"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_name, parts)))
    if origin is tuple:
        return f"a tuple of {_name(parts[0])}" if parts[-1] is ... else f"({', '.join(map(_name, parts))})"
    if origin is not None:
        return f"a mapping of {_name(parts[0])} to {_name(parts[1])}"
    return "nothing (None)" if hint is type(None) else getattr(hint, "__name__", str(hint))
