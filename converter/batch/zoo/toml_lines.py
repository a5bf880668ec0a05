"""Finds the lines of tables and keys in a TOML text, which tomllib does not tell.

Each line that may begin a table or a key is given to tomllib by itself, and counts where the whole document has what it
names. A key inside a value has the line of that value.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Keys = tuple[str | int, ...]
"""The way to a value: names of keys, and positions in arrays, those of tables ([[model]]) and of values alike."""


def key_lines(text: str, document: Mapping[str, Any]) -> dict[Keys, int]:
    """Of tables and keys the line, 1 for the first. document: what tomllib makes of the text."""
    lines: dict[Keys, int] = {}
    counts: dict[Keys, int] = {}
    table: Keys = ()
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        header = words.startswith("[")
        try:
            named = tomllib.loads(words if header else f"{words.partition('=')[0]}= 0")
        except ValueError:  # a comment, or in the middle of a value
            continue
        keys: Keys = () if header else table
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


def nearest_line(lines: Mapping[Keys, int], keys: Keys) -> int:
    """The line of a key, or of the innermost table around it that the text has; 1 where there is none."""
    return next((lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in lines), 1)


def _has(document: Any, keys: Keys) -> bool:
    for key in keys:
        try:
            document = document[key]
        except (LookupError, TypeError):
            return False
    return True
