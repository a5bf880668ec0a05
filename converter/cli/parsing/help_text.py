"""Formats the help of a command: fills paragraphs, and breaks example commands where a shell allows it."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

MOST_COLUMNS = 100
_CONTINUED = " \\"


class HelpText(argparse.RawDescriptionHelpFormatter):
    """A help formatter for descriptions with paragraphs and examples, which are indented lines."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        import shutil  # here, as textwrap below: most commands show no help

        columns = shutil.get_terminal_size().columns - 2
        super().__init__(
            *arguments, **{"width": max(min(columns, MOST_COLUMNS), 40), "max_help_position": 30, **options}
        )

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return filled(text, width, indent)


def filled(text: str, width: int, indent: str = "") -> str:
    """Fills the text into lines of at most `width` characters, without breaking words."""
    import textwrap

    lines: list[str] = []
    for kind, group in itertools.groupby(text.splitlines(), _kind):
        if kind == "example":
            for line in group:
                lines += _broken(line, width - len(indent))
        elif kind == "paragraph":
            lines += textwrap.wrap(" ".join(group), width - len(indent), break_on_hyphens=False)
        else:
            lines += [""] * len(list(group))
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return "example" if line.startswith(" ") else "paragraph"


def _broken(line: str, width: int) -> list[str]:
    """Breaks a command into lines that a shell joins again."""
    import textwrap

    if len(line) <= width:
        return [line]
    margin = line[: len(line) - len(line.lstrip())]
    parts = textwrap.wrap(
        line,
        width - len(_CONTINUED),
        subsequent_indent=margin + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(part + _CONTINUED for part in parts[:-1]), parts[-1]]
