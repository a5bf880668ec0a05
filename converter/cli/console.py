"""What people see: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.model.errors import UsageError
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


def check_report(
    path: Path | None, others: Iterable[Path | None] = (), flag: str = "--report", what: str = "the report"
) -> None:
    """UsageError if a report cannot be written there, or if it would replace one of the other files.

    Found out before any work is done. flag: the option that named it. what: the file, if it is no report.
    """
    if path is None:
        return
    where = f"{flag} {path}"
    try:
        if path.is_dir():
            raise UsageError(Problem(f"{what} is a folder", where, "a file name", f"{flag} {path / 'FILE'}"))
        if path.exists() and not path.is_file():  # a rename would put a file in the place of the device
            said = f"{what} would replace a device or pipe"
            raise UsageError(Problem(said, where, "a file, or nothing, of that name", "name another file"))
        for other in others:
            if other is not None and same_file(path, other):
                said = f"{what} would replace {other}"
                raise UsageError(Problem(said, where, "a file of its own", "name another file"))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _no_report(path, error, flag, what) from error


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not exist yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _no_report(path: Path, error: OSError, flag: str, what: str = "the report") -> UsageError:
    said = f"{what} cannot be written: {error.strerror}"
    return UsageError(Problem(said, f"{flag} {path}", "a writable file", "name another file"))


def write_report(path: Path | None, document: Any, flag: str = "--report") -> None:
    """--report: a JSON file, whole or not at all. UsageError if it cannot be written."""
    if path is None:
        return
    text = json.dumps(document, indent=1) + "\n"
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".trtsmith-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
        name = ""
    except OSError as error:
        raise _no_report(path, error, flag) from error
    finally:
        if name:
            Path(name).unlink(missing_ok=True)
