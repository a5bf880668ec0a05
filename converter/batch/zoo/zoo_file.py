"""Parses a zoo file: values with their lines, and a list of all problems."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.importers.problem import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 16 << 20
"""Of a zoo's file: 100,000 entries have less."""

_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

KeyPath = tuple[str | int, ...]
"""The way to a value: names of keys, and positions in arrays, those of tables ([[model]]) and of values alike."""


@dataclass
class ZooFile:
    """A parsed zoo file. path: as the user named it. folder: the base of its relative paths. found: problems with their
    lines.
    """

    path: Path
    folder: Path
    lines: Mapping[KeyPath, int]
    found: dict[Problem, int] = field(default_factory=dict)

    def raise_any(self) -> None:
        """Raises UsageError with all problems, in the order of the file."""
        if self.found:
            raise UsageError(sorted(self.found, key=lambda problem: self.found[problem]))


@dataclass(frozen=True, eq=False)
class Given:
    """A value in the file. name: its option or key. value: None for a missing key."""

    file: ZooFile
    keys: KeyPath
    name: str
    value: Any

    def __getitem__(self, key: str | int) -> Given:
        """Returns the value of a key of this table, or of an index of this array."""
        value = self.value.get(key) if isinstance(self.value, dict) else self.value[key]
        return Given(self.file, (*self.keys, key), key if isinstance(key, str) else self.name, value)

    def __contains__(self, key: object) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def inner(self) -> list[Given]:
        """Returns the content of this table or array, in file order."""
        return [self[key] for key in (self.value if isinstance(self.value, dict) else range(len(self.value)))]

    @property
    def line(self) -> int:
        """The line of this key, or of the innermost table around it; 1 if unknown."""
        ways = (self.keys[:end] for end in range(len(self.keys), 0, -1))
        return next((self.file.lines[way] for way in ways if way in self.file.lines), 1)

    @property
    def where(self) -> str:
        """The place for messages: the file, the line, and the key without positions in arrays."""
        names = ".".join(toml_key(name) for name in self.keys if isinstance(name, str))
        return f"{self.file.path}, line {self.line}" + (f": {names}" if names else "")

    def wrong(self, what: str, expected: str, fix: str) -> None:
        """Records a problem with this value."""
        self.file.found.setdefault(Problem(what, self.where, expected, fix), self.line)

    def take(self, problem: Problem, model: str = "") -> None:
        """Records another module's problem with this value. model: named unless the problem names it."""
        about = "" if model in problem.where else one_line(model)
        where = ", ".join(part for part in (self.where, about, problem.where) if part)
        self.file.found.setdefault(replace(problem, where=where), self.line)

    def is_table(self) -> bool:
        """Tells whether the value is a table; records a problem if not."""
        if not isinstance(self.value, dict):
            name = self.name or "it"
            what = f"{name} is {shown(self.value)}, not a table"
            fix = f"write [{name}], or {name} = {{ ... }}"
            self.wrong(what, "a table", fix)
        return isinstance(self.value, dict)

    def check_keys(self, known: Collection[str], of: str) -> None:
        """Records each unknown key. of: the owner of the keys, for messages."""
        for name in self.value:
            if name not in known:
                expected, fix = f"of {of}: {', '.join(known)}", did_you_mean(name, known)
                self[name].wrong(f"unknown key {name!r}", expected, fix)


def read_zoo_file(path: Path) -> Given:
    """Parses the document. Raises UsageError if it is unreadable or not TOML."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
        lines = key_lines(text, document)
    except RecursionError:
        raise _no_zoo(path, 1, "it is nested too deeply", "tables and arrays a few levels deep") from None
    except ValueError as error:  # TOMLDecodeError, and int() for numbers of thousands of digits
        said, line = _said(str(error), text)
        if path.suffix.lower() in (".yaml", ".yml"):
            said = f"the file is YAML by its name, and a zoo is TOML: {said}"
        raise _no_zoo(path, line, said, "TOML, as https://toml.io describes it") from None
    return Given(ZooFile(path, Path(os.path.abspath(path.parent)), lines), (), "", document)


def key_lines(text: str, document: Mapping[str, Any]) -> dict[KeyPath, int]:
    """Of tables and keys the line, 1 for the first, which tomllib does not tell. document: what it makes of the text.

    Each line that may begin a table or a key is given to tomllib by itself, and counts where the whole document has what
    it names. A key inside a value has the line of that value.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        header = words.startswith("[")
        try:
            named = tomllib.loads(words if header else f"{words.partition('=')[0]}= 0")
        except ValueError:  # a comment, or in the middle of a value
            continue
        keys: KeyPath = () if header else table
        while isinstance(named, dict) and named:
            ((name, named),) = named.items()
            keys = (*keys, name)
            if not _has(document, keys):
                break
            lines.setdefault(keys, number)
            if isinstance(named, list):  # [[name]]
                counts[keys] = counts.get(keys, -1) + 1
                named = None
            if header and keys in counts:
                keys = (*keys, counts[keys])
                lines.setdefault(keys, number)
        else:
            table = keys if header else table
    return lines


def _has(document: Any, keys: KeyPath) -> bool:
    try:
        for key in keys:
            document = document[key]
    except (LookupError, TypeError):
        return False
    return True


def _text(path: Path) -> str:
    where, expected = str(path), "a zoo's file: TOML in UTF-8"
    either = f"{expected}; or a folder of models"
    try:
        if path.is_dir():
            fix = f"write a zoo of its models with: trtsmith batch --init {path} -o zoo.toml"
            raise UsageError("it is a folder", where, expected, fix)
        if path.exists() and not path.is_file():
            raise UsageError("it is a device or a pipe", where, expected, "name a file")
        with open(path, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"it cannot be read: {said}", where, either, "correct the path") from None
    if path.suffix in (".onnx", ".pt2"):
        fix = f"trtsmith convert {path}; or name its folder: trtsmith batch {path.parent}"
        raise UsageError("it is a model", where, either, fix)
    if len(data) > MOST_BYTES:
        what, fix = f"it has more than {MOST_BYTES >> 20} MiB", "name models by globs, or make several zoos"
        raise UsageError(what, where, expected, fix)
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
    return UsageError(what, f"{path}, line {line}", expected, "correct that line")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Makes a fix for an unknown name: the closest known one."""
    near = nearest(name, known)
    return "correct it, or remove it" if near is None else f"did you mean {near!r}?"


def one_line(text: str) -> str:
    """Returns a path or a name, quoted if it has control characters."""
    return text if text.isprintable() else repr(text)


def shown(value: Any, most: int = 60) -> str:
    """Formats a value for a message."""
    if value in ([], {}):
        return f"{'an array' if value == [] else 'a table'} with nothing in it"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}..."


def toml_string(text: str) -> str:
    """Writes a basic string. Raises UnicodeEncodeError for what TOML cannot hold: file names that are not UTF-8."""
    text.encode()
    # As JSON, but for what JSON leaves as it is and an editor would not show.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in json.dumps(text, ensure_ascii=False))


def toml_key(text: str) -> str:
    """Writes a key, with quotes where it needs them."""
    return text if _BARE_KEY.fullmatch(text) else toml_string(text)


def toml_comment(text: str) -> str:
    """Writes a comment on one line, whatever is in the text."""
    return "# " + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
