"""Formats text for a terminal: escapes control characters, and lays out tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

_LONG = re.compile(r"(\S{300})\S{700,}")
"""The length from which a name is cut. Paths have 4,096 characters at most, and rarely more than a hundred."""


def printable(text: str) -> str:
    """Escapes what a terminal could act on, or an encoding could refuse, such as \\x1b.

    Names come from files that others wrote: of long ones the beginning is shown. Newlines stay: messages have lines of
    their own.
    """
    text = _LONG.sub(lambda found: f"{found[1]}... ({len(found[0]):,} characters)", text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """Puts a name from a file on one line, so that its newlines do not look like ours."""
    return printable(text).replace("\n", "\\n")


def in_brief(text: str, most: int = 400) -> str:
    """Puts a text on one line, and cuts it at a blank where it has more characters."""
    return textwrap.shorten(one_line(text), most, placeholder=" ...")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows as aligned columns, two blanks apart; the last column is not padded."""
    if not rows:
        return ""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(lines)
