"""Escapes names and values of a model as literals, identifiers and code spans, so that none becomes code or markup."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from trtsmith.converter.compile.definitions.rule_source import KEYWORDS

CPP_WORDS = KEYWORDS | {"launch", "field", "product"}
"""What C++ keeps for itself, and functions that the SDK has, in small letters."""

_LONGEST = 60
_QUOTES = '"""'


def identifier(name: str, fallback: str, taken: Iterable[str] = ()) -> str:
    """Makes an ASCII identifier for Python and C++, close to the given name and not in `taken`."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII)[:_LONGEST].strip("_") or fallback
    if not plain[0].isalpha() or keyword.iskeyword(plain) or plain in CPP_WORDS:
        plain = f"{fallback}_{plain}"
    taken = set(taken)
    found, number = plain, 1
    while found in taken:
        number += 1
        found = f"{plain}_{number}"
    return found


def literal(value: Any) -> str:
    """Writes a value as Python source on one line: strings in double quotes, tuples, mappings, numbers, None."""
    if isinstance(value, str):
        return '"' + _escaped(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + "," * (len(value) == 1) + ")"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def text_block(text: str) -> str:
    """Formats a text as a multi-line Python literal."""
    lines = text.replace("\\", "\\\\").replace(_QUOTES, '\\"\\"\\"').split("\n")
    return "\n".join([_QUOTES, *map(_escaped, lines), _QUOTES])


def code_span(text: str) -> str:
    """Formats a text as inline code in Markdown."""
    shown = _escaped(text)
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * next(count for count in range(1, len(runs) + 2) if count not in runs)
    return f"{fence} {shown} {fence}" if runs or not shown.strip() else f"{fence}{shown}{fence}"


def _escaped(text: str) -> str:
    """The text with what does not print written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
