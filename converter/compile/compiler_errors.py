"""Reads the errors of nvcc, g++, the linker and CMake from a build's log, each with its place and its source line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.compile.package_folder import LIST

SHOWN = 3
"""Errors that are shown: those after the first are mostly its consequences. The log has them all."""

LONGEST = 400
"""Characters of a message: g++ spells templates out."""

_PATTERNS = (
    re.compile(
        r"^(?P<file>[^\s:(][^:(]*)\((?P<line>\d+)\): (?:catastrophic |fatal )?error(?: #[\w-]+)?: (?P<text>.+)$"
    ),
    re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.+)$"),
    re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+): (?P<text>undefined reference to .+)$"),
    re.compile(r"^(?P<file>[^\s:]+):(?P<line>)\(\S+\): (?P<text>undefined reference to .+)$"),
    re.compile(
        r"^(?P<file>)(?P<line>)\S*ld: (?:.*: )?(?P<text>(?:undefined reference|multiple definition|cannot find).+)$"
    ),
    re.compile(r"^(?P<file>)(?P<line>)ptxas (?:fatal|error)\s*: (?P<text>.+)$"),
    re.compile(r"^(?P<file>)(?P<line>)nvcc fatal\s*: (?P<text>.+)$"),
)
_USERS = (
    re.compile(r"^(?:In file included from|\s+from) (?P<file>[^\s:][^:]*):(?P<line>\d+)[:,]"),
    re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)?\s+required (?:from|by)"),
)
"""Who includes a header, and who needs a template of it: g++ says both before the error, the innermost first."""

_CALLER = re.compile(r"^  (?P<file>\S.*?):(?P<line>\d+) \(")
_CMAKE = re.compile(r"^CMake Error(?: at (?P<file>.+?):(?P<line>\d+)(?: \(.+\))?)?:(?P<rest>.*)$")


@dataclass(frozen=True)
class CompilerError:
    """One error. file, line: "" and 0 where the tool does not say. source: the line of the file, "" if it is missing."""

    text: str
    file: str = ""
    line: int = 0
    source: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.text}" + (f"\n{self.line:>6} | {self.source}" if self.source else "")


def errors_of(log: str, relative_to: Path) -> tuple[CompilerError, ...]:
    """Reads the errors in a log, each once and in order. Files below `relative_to` are named from there."""
    found: dict[tuple[str, int, str], CompilerError] = {}
    for text, file, line in (*_of_compilers(log, relative_to), *_of_cmake(log)):
        error = CompilerError(text[:LONGEST], _named(file, relative_to), line, _source_line(file, line))
        found.setdefault((error.file, line, text), error)
    return tuple(found.values())


def _of_compilers(log: str, package: Path) -> Iterator[tuple[str, str, int]]:
    """An error in a header from elsewhere has the place in the package that needs it, where g++ names one."""
    users: list[tuple[str, int] | None] = [None, None]
    for row in log.splitlines():
        if row.startswith("In file included from"):
            users = [None, None]
        elif ": In " in row:  # ... instantiation of
            users[1] = None
        for i, pattern in enumerate(_USERS):
            user = pattern.match(row)
            if user is not None and users[i] is None and _named(user["file"], package) != user["file"]:
                users[i] = user["file"], int(user["line"])
        match = next((m for pattern in _PATTERNS if (m := pattern.match(row))), None)
        if match is not None:
            elsewhere = Path(match["file"]).is_absolute() and _named(match["file"], package) == match["file"]
            place = (users[1] or users[0]) if elsewhere else None
            yield match["text"].strip(), *(place or (match["file"], int(match["line"] or 0)))


def _of_cmake(log: str) -> Iterator[tuple[str, str, int]]:
    """CMake writes its message below the place, indented, and below that who called: the outermost file is the user's."""
    rows = log.splitlines()
    for index, row in enumerate(rows):
        match = _CMAKE.match(row)
        if match is None:
            continue
        text, place = [match["rest"].strip()], (match["file"] or "", int(match["line"] or 0))
        called = False
        for below in rows[index + 1 :]:
            called = called or below.startswith("Call Stack")
            caller = _CALLER.match(below) if called else None
            if caller is not None and caller["file"].endswith(LIST):
                place = (caller["file"], int(caller["line"]))
            elif (below and not below.startswith("  ") and not called) or (called and not below):
                break
            elif not called:
                text.append(below.strip())
        told = " ".join(part for part in text if part)
        yield told.split(" where: ")[0], *place  # of a message of ours, what was wrong


def _named(file: str, relative_to: Path) -> str:
    if not file:
        return ""
    path = Path(file)
    for folder in (relative_to, relative_to.resolve()):
        if path.is_absolute() and path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return file


def _source_line(file: str, line: int) -> str:
    """The line as it is in the file, without the blanks around it and cut where a terminal would break it."""
    if not file or not line:
        return ""
    try:
        rows = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return rows[line - 1].strip()[:160] if line <= len(rows) else ""
