"""Prints results on stdout and everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from trtsmith.converter.base.printable import one_line, printable, table
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.cli.problem_groups import grouped
from trtsmith.converter.cli.terminal import colors
from trtsmith.converter.cli.terminal.live_line import LiveLine
from trtsmith.importers.problem import Problem

__all__ = ["Console", "on_terminal", "one_line", "printable", "table"]


@dataclass(frozen=True)
class Console:
    """The terminal of a command.

    quiet:   problems only; verbose: details too.
    color:   one of trtsmith.converter.cli.terminal.colors.MODES.
    live:    the line that shows what is being done; None where stderr is no terminal.
    """

    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    live: LiveLine | None = None

    @property
    def progress(self) -> Progress:
        """The receiver of progress: the live line, or else a line on stderr for each step."""
        return self.note if self.live is None else self.live

    def result(self, text: str, states: Sequence[str] = ()) -> None:
        """Prints a result on stdout. states: words at the beginning of lines that name a state."""
        # May be ASCII, and refuse what names hold; stderr never does.
        encoding = sys.stdout.encoding or "utf-8"
        text = printable(text).encode(encoding, "backslashreplace").decode(encoding)
        self._over()
        print(colors.result(text, states) if colors.is_colored(sys.stdout, self.color) else text)

    def json(self, document: Any) -> None:
        """Prints a result as JSON on stdout."""
        self._over()
        print(json.dumps(document, indent=1))

    def note(self, text: str) -> None:
        """Prints a note on stderr at once, as one line even if a name contains line breaks."""
        if not self.quiet:
            self._print(f"  {self._said(one_line(text))}")

    def detail(self, text: str) -> None:
        """Prints a detail, with --verbose only."""
        if self.verbose:
            self._print(f"  {printable(text)}")

    def say(self, text: str) -> None:
        """Prints a note on one line, even with --quiet."""
        self._print(self._said(one_line(text)))

    def block(self, text: str) -> None:
        """Prints several lines, such as a Problem or a compiler's output, even with --quiet."""
        first, *further = text.split("\n")
        lines = [line if line.startswith("  ") else f"    {line}" for line in further]
        self._print(self._said("\n".join([first, *lines])))

    def problems(self, problems: Iterable[Problem]) -> None:
        """Prints problems in four parts; one shared by many nodes is printed once."""
        for problem in grouped(problems):
            self.block(f"error: {problem}")

    def _said(self, text: str) -> str:
        text = printable(text)
        return colors.said(text) if colors.is_colored(sys.stderr, self.color) else text

    def _print(self, text: str) -> None:
        with self._apart():
            print(text, file=sys.stderr, flush=True)

    def _apart(self) -> AbstractContextManager[None]:
        return nullcontext() if self.live is None else self.live.paused()

    def _over(self) -> None:
        """Clears the progress line before a result."""
        if self.live is not None:
            self.live.clear()


@contextmanager
def on_terminal(console: Console) -> Iterator[Console]:
    """Yields the console, with a live line inside the block if stderr is a terminal and progress is wanted."""
    if console.quiet or not colors.is_terminal(sys.stderr):
        yield console
        return
    colored = colors.is_colored(sys.stderr, console.color)
    live = LiveLine(console.note, verbose=console.verbose, colored=colored)
    try:
        yield replace(console, live=live)
    finally:
        live.end()
