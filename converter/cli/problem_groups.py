"""Groups problems of one kind, so that a hundred nodes with an unknown operator give one message."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from trtsmith.importers.problem import Problem

SHOWN = 3
"""How many of a group's names are listed; one more is listed instead of "... 1 more"."""

_LONGEST = 80
_NAMED = re.compile(r"^(?P<kind>node|input|output) (?P<name>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_NUMBER = re.compile(r", number \d+(?=, |$)")


@dataclass(frozen=True)
class _NamedPart:
    """The subject at the beginning of `where`. kind: node, input or output."""

    kind: str
    written: str
    name: str


def grouped(problems: Iterable[Problem]) -> list[Problem]:
    """Merges problems that differ only in the name at the beginning of `where`, in order of first occurrence.

    What is expected and the fix have to be the same, too. A fix for a node may name it: it then says how it is done for the
    first. Of inputs and outputs each has a fix of its own, which is to be copied.
    """
    groups: dict[object, list[tuple[Problem, _NamedPart | None]]] = {}
    for problem in problems:
        place = _place(problem.where)
        key = problem if place is None else _key(problem, place)
        groups.setdefault(key, []).append((problem, place))
    return [_as_one(members) for members in groups.values()]


def _key(problem: Problem, place: _NamedPart) -> tuple[str, ...]:
    where = _NUMBER.sub("", _without(problem.where, place))
    ends = (problem.expected, problem.fix)
    if place.kind == "node":
        ends = (_without(problem.expected, place), _without(problem.fix, place))
    return (place.kind, _without(problem.what, place), where, *ends)


def _place(where: str) -> _NamedPart | None:
    found = _NAMED.match(where)
    if found is None:
        return None
    try:
        name = ast.literal_eval(found["name"])
    except (ValueError, SyntaxError):
        return None
    return _NamedPart(found["kind"], found["name"], name)


def _without(text: str, place: _NamedPart) -> str:
    text = text.replace(place.written, "\0")
    return re.sub(rf"(?<![\w./:-]){re.escape(place.name)}(?![\w./:-])", "\0", text) if place.name else text


def _as_one(members: list[tuple[Problem, _NamedPart | None]]) -> Problem:
    first, place = members[0]
    names = list(dict.fromkeys(other.name for _, other in members if other is not None and other.name))
    count = len(members)
    if count == 1 or place is None:
        return first
    shown = names if len(names) <= SHOWN + 1 else [*names[:SHOWN]]
    listed = [_short(name) for name in shown] + (
        [f"... {len(names) - len(shown):,} more"] if shown != names else []
    )
    behind = f" ({', '.join(listed)})" if listed else ""
    what = f"{count:,} {place.kind}s: {first.what}{behind}"
    return replace(first, what=what, where=f"{first.where}, and {count - 1:,} more")


def _short(name: str) -> str:
    name = name.replace("\n", "\\n")
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
