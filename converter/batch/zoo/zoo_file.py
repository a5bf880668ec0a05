"""Reads the text of a zoo's file: TOML with the line of every key, and a list of all that is wrong with it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.zoo.toml_lines import Keys, key_lines, nearest_line
from trtsmith.converter.batch.zoo.toml_text import toml_key
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 16 << 20
"""Of a zoo's file: 100,000 entries have less."""

_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True)
class ZooFile:
    """path: as the user named it. folder: that paths in it are relative to, absolute. document: as tomllib gives it."""

    path: Path
    folder: Path
    document: Mapping[str, Any]
    lines: Mapping[Keys, int]

    def line(self, keys: Keys) -> int:
        """Of a key, or of the table around it."""
        return nearest_line(self.lines, keys)

    def where(self, keys: Keys) -> str:
        """For messages: the file, the line, and the key without positions in arrays."""
        names = ".".join(toml_key(name) for name in keys if isinstance(name, str))
        return f"{self.path}, line {self.line(keys)}" + (f": {names}" if names else "")


@dataclass
class ZooFindings:
    """The problems of a file, each once, to be sorted by their lines."""

    file: ZooFile
    _found: dict[Problem, int] = field(default_factory=dict)

    def add(self, keys: Keys, what: str, expected: str, fix: str) -> None:
        """A problem with what stands under a key."""
        self._found.setdefault(Problem(what, self.file.where(keys), expected, fix), self.file.line(keys))

    def take(self, keys: Keys, problem: Problem, about: str = "") -> None:
        """A problem of another part of trtsmith with what stands under a key. about: the model, if keys do not tell."""
        where = ", ".join(part for part in (self.file.where(keys), about, problem.where) if part)
        said = Problem(problem.what, where, problem.expected, problem.fix)
        self._found.setdefault(said, self.file.line(keys))

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """UsageError with all of them, in the order of the file."""
        if self._found:
            raise UsageError(sorted(self._found, key=lambda problem: self._found[problem]))


def read_zoo_file(path: Path) -> ZooFile:
    """UsageError for a file that cannot be read, or is no TOML."""
    text = _text(path)
    try:
        document = _parsed(path, text)
        lines = key_lines(text, document)
    except RecursionError:
        raise _no_zoo(path, 1, "it is nested too deeply", "tables and arrays a few levels deep") from None
    return ZooFile(path, Path(os.path.abspath(path.parent)), document, lines)


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and int() for numbers of thousands of digits
        what, line = _said(str(error), text)
        raise _no_zoo(path, line, what, "TOML, as https://toml.io describes it") from None
    return document


def _text(path: Path) -> str:
    where, expected = str(path), "a zoo's file: TOML in UTF-8"
    try:
        if path.is_dir():
            fix = f"write a zoo of its models with: trtsmith batch --init {path} -o zoo.toml"
            raise UsageError(Problem("it is a folder", where, expected, fix))
        if path.exists() and not path.is_file():
            raise UsageError(Problem("it is a device or a pipe", where, expected, "name a file"))
        with open(path, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(Problem(f"it cannot be read: {said}", where, expected, "correct the path")) from None
    if len(data) > MOST_BYTES:
        what, fix = f"it has more than {MOST_BYTES >> 20} MiB", "name models by globs, or make several zoos"
        raise UsageError(Problem(what, where, expected, fix))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _no_zoo(path, line, f"it is not UTF-8: {error.reason}", expected) from None


def _said(message: str, text: str) -> tuple[str, int]:
    """The parser's message, and the line that is in it."""
    found = _AT_LINE.search(message)
    if found is None:
        return message, 1
    line = int(found[1]) if found[1] else text.count("\n") + (not text.endswith("\n"))
    return message[: found.start()], line


def _no_zoo(path: Path, line: int, what: str, expected: str) -> UsageError:
    return UsageError(Problem(what, f"{path}, line {line}", expected, "correct that line"))
