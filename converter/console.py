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

from converter.errors import UsageError
from importers.problem import Problem


@dataclass(frozen=True)
class Console:
    """The terminal. quiet: problems only; verbose: details too."""

    quiet: bool = False
    verbose: bool = False

    def result(self, text: str) -> None:
        """A result, on stdout."""
        print(text)

    def json(self, document: Any) -> None:
        """A result as JSON, on stdout."""
        print(json.dumps(document, indent=1))

    def progress(self, text: str) -> None:
        """What is being done, on stderr, at once."""
        if not self.quiet:
            print(f"  {text}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """What only --verbose shows."""
        if self.verbose:
            print(f"  {text}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A note that even --quiet shows."""
        print(text, file=sys.stderr, flush=True)

    def problems(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.say(f"error: {problem}")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, two blanks apart; the last column is not padded."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(lines)


def write_report(path: Path | None, document: Any) -> None:
    """--report: a JSON file, whole or not at all. UsageError if it cannot be written."""
    if path is None:
        return
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".trtsmith-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
            stream.write("\n")
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise UsageError(
            Problem(
                f"the report cannot be written: {error.strerror}",
                f"--report {path}",
                "a writable file",
                "name another file",
            )
        ) from error
