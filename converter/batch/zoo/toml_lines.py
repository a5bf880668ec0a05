"""Finds the line of every key in a TOML text, which tomllib does not tell.

tomllib is the parser: it decides what is valid and what the values are. This index is made of a text that tomllib has
taken already, so it only has to know where strings, comments, arrays and tables begin and end. A test holds its keys
against tomllib's document over awkward files; a key that it should miss has the line of the table around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Keys = tuple[str | int, ...]
"""The way to a value: names of keys, and positions in arrays, those of tables ([[model]]) and of values alike."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\r\n]*")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))")
_SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}
_STRINGS = (
    # The closing marks of a multi-line string may follow up to two marks that are part of it.
    re.compile(r'"""(?:[^"\\]|\\.|"(?!"")|"(?="""))*"""', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!'')|'(?='''))*'''", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> dict[Keys, int]:
    """Of every key, table and element of an array its line, 1 for the first. text: valid TOML; lines end with a newline,
    alone or after a carriage return. RecursionError where it is nested too deeply."""
    scan = _Scan(text)
    scan.document()
    return scan.lines


def nearest_line(lines: Mapping[Keys, int], keys: Keys) -> int:
    """The line of a key, or of the innermost table around it that the text has; 1 where there is none."""
    for length in range(len(keys), 0, -1):
        if keys[:length] in lines:
            return lines[keys[:length]]
    return 1


@dataclass
class _Scan:
    """A position in the text, and what was found before it."""

    text: str
    at: int = 0
    lines: dict[Keys, int] = field(default_factory=dict)
    counts: dict[Keys, int] = field(default_factory=dict)
    _counted: int = 0
    _line: int = 1

    def document(self) -> None:
        table: Keys = ()
        self.skip_blank()
        while self.at < len(self.text):
            if self.text.startswith("[[", self.at):
                table = self.header(2)
            elif self.text[self.at] == "[":
                table = self.header(1)
            else:
                self.pair(table)
            self.skip_blank()

    def header(self, brackets: int) -> Keys:
        """[a.b], or the next element of [[a.b]]: the way to the table that it opens."""
        line = self.line()
        self.at += brackets
        names = self.dotted_key()
        self.at += brackets
        keys: Keys = ()
        for position, name in enumerate(names):
            keys = (*keys, name)
            self.lines.setdefault(keys, line)
            if brackets == 2 and position == len(names) - 1:
                self.counts[keys] = self.counts.get(keys, 0) + 1
            if keys in self.counts:
                keys = (*keys, self.counts[keys] - 1)
                self.lines.setdefault(keys, line)
        return keys

    def pair(self, table: Keys) -> None:
        """key = value, in a table or an inline table."""
        line = self.line()
        keys = table
        for name in self.dotted_key():
            keys = (*keys, name)
            self.lines.setdefault(keys, line)
        self.at += 1  # =
        self.skip_blank()
        self.value(keys)

    def value(self, keys: Keys) -> None:
        start = self.text[self.at]
        if start == "[":
            self.elements(keys)
        elif start == "{":
            self.pairs(keys)
        elif start in "\"'":
            self.string()
        else:
            self.at = self.match(_SCALAR).end()

    def elements(self, keys: Keys) -> None:
        self.at += 1
        self.skip_blank()
        position = 0
        while self.text[self.at] != "]":
            element = (*keys, position)
            self.lines[element] = self.line()
            self.value(element)
            position += 1
            self.skip_comma()
        self.at += 1

    def pairs(self, keys: Keys) -> None:
        self.at += 1
        self.skip_blank()
        while self.text[self.at] != "}":
            self.pair(keys)
            self.skip_comma()
        self.at += 1

    def dotted_key(self) -> tuple[str, ...]:
        """The names, and the position behind them and the blanks that follow."""
        names = []
        while True:
            self.skip_blank()
            names.append(self.name())
            self.skip_blank()
            if self.text[self.at] != ".":
                return tuple(names)
            self.at += 1

    def name(self) -> str:
        if self.text[self.at] == '"':
            return _ESCAPE.sub(_unescaped, self.string()[1:-1])
        if self.text[self.at] == "'":
            return self.string()[1:-1]
        found = self.match(_BARE_KEY)
        self.at = found.end()
        return found.group()

    def string(self) -> str:
        for kind in _STRINGS:
            if found := kind.match(self.text, self.at):
                self.at = found.end()
                return found.group()
        raise ValueError(f"there is no string at {self.at}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"there is no {pattern.pattern} at {self.at}")
        return found

    def skip_blank(self) -> None:
        self.at = self.match(_BLANK).end()

    def skip_comma(self) -> None:
        self.skip_blank()
        if self.text[self.at] == ",":
            self.at += 1
            self.skip_blank()

    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    return chr(int(digits, 16)) if digits else _SHORT[found[4]]
