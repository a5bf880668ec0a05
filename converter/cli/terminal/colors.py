"""Colours status words as --color, NO_COLOR, FORCE_COLOR and TERM allow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TextIO

MODES = ("auto", "always", "never")

_RED, _YELLOW, _GREEN, _CYAN = "1;31", "1;33", "1;32", "36"
_OF_WORDS = {
    "error": _RED,
    "warning": _YELLOW,
    "note": _CYAN,
    "agree": _GREEN,
    "disagree": _RED,
    "agrees in part": _YELLOW,
    "costs too much": _YELLOW,
    "not comparable": _YELLOW,
    "not compared": _YELLOW,
    "convertible": _GREEN,
    "not convertible": _RED,
    "every value agrees": _GREEN,
    "ok": _GREEN,
    "absent": _YELLOW,
    "missing": _RED,
    "fail": _RED,
}
"""SGR parameters (ECMA-48, 8.3.117) by word."""

_SAID = re.compile(r"(error|warning|note|fail)(?=:)")
_VERDICT = re.compile(
    r"(?<=^verdict: )(?:(?:agree|agrees in part|costs too much|disagree|not comparable)(?: \([^\n:]*\))?(?=:)"
    r"|every value agrees$)",
    re.MULTILINE,
)
_OUTCOME = re.compile(r"(?<=; )(not convertible|convertible)(?=:)")
_NOTED = re.compile(r"^(warning|note)(?=: )", re.MULTILINE)


def is_colored(stream: TextIO, mode: str = "auto", environment: Mapping[str, str] = os.environ) -> bool:
    """Tells whether to colour text on the stream.

    auto: on a terminal that has them, unless NO_COLOR is set (no-color.org); FORCE_COLOR (force-color.org) gives them to
    files, too. Both count if they are not empty, and NO_COLOR wins, as for Python itself.
    """
    if mode != "auto":
        return mode == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return is_terminal(stream, environment)


def is_terminal(stream: TextIO | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Tells whether the stream is a terminal that supports cursor movement and colours."""
    try:
        there = stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False
    return there and environment.get("TERM", "") not in ("", "dumb", "unknown")


def said(text: str) -> str:
    """Colours a message's first word: error, warning, note or fail."""
    return _SAID.sub(_painted, text, count=1) if _SAID.match(text) else text


def result(text: str, states: Sequence[str] = ()) -> str:
    """Colours the verdict in a result, and the words in front of warnings and notes.

    states: words that have a colour where a line begins with one.
    """
    if states:
        text = re.sub(rf"^({'|'.join(map(re.escape, states))})(?=  |:)", _painted, text, flags=re.MULTILINE)
    head, newline, last = text.rpartition("\n")
    return _NOTED.sub(
        _painted, _VERDICT.sub(_painted, head + newline + _OUTCOME.sub(_painted, last, count=1))
    )


def _painted(found: re.Match[str]) -> str:
    """Colours a word. A qualified agreement such as "agree (graph only)" is not green."""
    word, qualified, _ = found[0].partition(" (")
    color = _YELLOW if qualified and word == "agree" else _OF_WORDS[word]
    return f"\x1b[{color}m{found[0]}\x1b[0m"
