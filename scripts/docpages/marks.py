"""Fills the parts of a document between the lines `<!-- generated: NAME -->` and `<!-- end of NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Parts = Mapping[str, Callable[[], str]]
"""What makes each part, by its name."""


class DocumentError(Exception):
    """Raised for a document whose marks are wrong."""


def refresh(path: Path, parts: Parts, *, write: bool) -> bool:
    """Whether the document's generated parts were out of date; rewrites them if `write`. A part "" is the whole file."""
    before = path.read_text(encoding="utf-8")
    made = {name: make() for name, make in parts.items()}
    after = made[""] if "" in made else fill(before, made)
    if write and after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def fill(text: str, parts: Mapping[str, str]) -> str:
    """The document with each part between its marks. Raises DocumentError unless the marks are exactly those of the
    parts.
    """
    for name, body in parts.items():
        first, last = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
        if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
            raise DocumentError(f"one {first} and then one {last} are expected")
        before, rest = text.split(first)
        text = f"{before}{first}\n\n{body}\n\n{last}{rest.split(last)[1]}"
    unknown = set(re.findall(r"<!-- generated: (.+?) -->", text)) - set(parts)
    if unknown:
        raise DocumentError(f"nothing generates {', '.join(sorted(unknown))}")
    return text


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def table_of(rows: Iterable[Any], columns: Mapping[str, Callable[[Any], str]]) -> str:
    """A line for each row. columns: by heading, how to get a row's cell."""
    return markdown_table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def escaped(text: str) -> str:
    """Text in which Markdown sees only the code in backticks."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if i % 2 else re.sub(r"([*_<>])", r"\\\1", part) for i, part in enumerate(parts))


def code(text: str) -> str:
    """Text as code in a table cell, safe for readers that disagree about `|` in backticks."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"
