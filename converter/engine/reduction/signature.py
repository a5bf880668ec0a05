"""Tells whether two builds failed in the same way."""

from __future__ import annotations

import re

from trtsmith.converter.engine.build import log as build_log
from trtsmith.converter.engine.build.build_request import PARSING
from trtsmith.converter.engine.build.explain import SAYS
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.model.errors import BuildRefused

_PLACE = re.compile(r"\b([\w.]+\.(?:cpp|h|hpp|cc)):+(?:\w+:+)?(\d+)")
"""As TensorRT names a place in its sources: "At graphScope.cpp::analyze::471", "at /_src/x.cpp:12", "[shape.cpp:175:"."""

_REASON = re.compile(r"(?:Error is:|Assertion failed:)(.*?)(?:$|\bIn \w+ at\b)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]{3,}")
_FUNCTION = re.compile(r"\[(import\w+)\]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\S*[\d_/.]\S*")
"""What may be a name or a number in a reason."""

Signature = frozenset[tuple[str, ...]]
"""One entry for each reason that was given."""


def signature_of(error: BuildRefused | ChildDied) -> Signature:
    """What the failure is known by: places in TensorRT's sources and the words of its reason, without names and sizes."""
    if isinstance(error, ChildDied):
        return frozenset({("ended", error.phase, "late" if error.timed_out else error.how)})
    said = (problem.what.partition(SAYS)[2] or problem.what for problem in error.problems)
    return frozenset(_of_message(message) for message in said)


def _of_message(message: str) -> tuple[str, ...]:
    places = sorted({f"{file}:{line}" for file, line in _PLACE.findall(message)})
    found = _REASON.search(message)
    reason = _QUOTED.sub(" ", found[1] if found else "" if places else message)
    words = _WORD.findall(reason)
    return (*places, *_FUNCTION.findall(message), " ".join(words))


def same(one: Signature, other: Signature) -> bool:
    """Whether a reason of one is a reason of the other: a smaller graph may have fewer of them."""
    return not one.isdisjoint(other)


def nodes_named(error: BuildRefused | ChildDied) -> str:
    """The text in which names of nodes and values are looked for: of a log only its end, as all nodes are in it."""
    if isinstance(error, ChildDied):
        last = build_log.last_node(error.log, parsing=error.phase == PARSING)
        return f"{last or ''}\n{build_log.tail(error.log)}"
    return "\n".join(f"{problem.what}\n{problem.where}" for problem in error.problems)
