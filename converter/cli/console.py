"""Prints results on stdout and everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class Console:
    """The terminal. quiet: problems only; verbose: details too."""

    quiet: bool = False
    verbose: bool = False

    def result(self, text: str) -> None:
        """A result, on stdout."""
        encoding = (
            sys.stdout.encoding or "utf-8"
        )  # may be ASCII, and refuse what names hold; stderr never does
        print(printable(text).encode(encoding, "backslashreplace").decode(encoding))

    def json(self, document: Any) -> None:
        """A result as JSON, on stdout."""
        print(json.dumps(document, indent=1))

    def progress(self, text: str) -> None:
        """What is being done, on stderr, at once."""
        if not self.quiet:
            print(f"  {printable(text)}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """What only --verbose shows."""
        if self.verbose:
            print(f"  {printable(text)}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A note that even --quiet shows."""
        print(printable(text), file=sys.stderr, flush=True)

    def problems(self, problems: Iterable[Problem]) -> None:
        for problem in problems:  # further lines of a part are indented: none can pass for a line of ours
            parts = {part: text.replace("\n", "\n    ") for part, text in problem.to_json().items()}
            self.say(f"error: {Problem(**parts)}")


def printable(text: str) -> str:
    """The text with what a terminal could act on, or an encoding refuse, written out: \\x1b for an escape.

    Names come from files that others wrote. Newlines stay: messages have lines of their own.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """A name from a file, for a place where a newline would look like a line of ours."""
    return printable(text).replace("\n", "\\n")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, two blanks apart; the last column is not padded."""
    if not rows:
        return ""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(lines)
