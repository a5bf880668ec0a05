"""Shows progress on one line of a terminal: stage, step, share done, and elapsed time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trtsmith.converter.base.printable import one_line
from trtsmith.converter.base.progress import LONG_S, Steps

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_PER_SECOND = 8


class LiveLine(Steps):
    """The live line on stderr, from the first step until `end`. All other lines must be printed while it is `paused`.

    tell:    prints a line that stays.
    verbose: whether steps stay as lines, too.
    colored: whether the line may have colours.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        verbose: bool = False,
        colored: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._verbose, self._colored, self._clock = tell, verbose, colored, clock
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._ended = False
        self._stage = self._step = self._part = self._skip = ""
        self._share: float | None = None
        self._since = clock()

    def __call__(self, text: str) -> None:
        """Shows a step that begins."""
        if self._verbose:
            self.note(text)
        self.step(text)

    def step(self, text: str) -> None:
        """Shows a step that begins, with the time since the beginning of its stage, if it is in one."""
        if not self._stage:
            self._since = self._clock()
        self._step, self._part, self._share = text, "", None
        self._show()

    def note(self, text: str) -> None:
        """Prints a line that stays, above the live line."""
        with self.paused():
            self._tell(text)

    def done(self, text: str) -> None:
        """Prints a line that stays, and hides the live line until the next step."""
        self.clear()
        self._tell(text)

    def share(self, part: str, done: float, text: str) -> None:
        """Shows the share done, from 0 to 1. The text repeats it and is not used."""
        del text
        self._part, self._share = part, done

    def stage(self, name: str, skip: str = "") -> None:
        self._stage, self._skip, self._since = name, skip, self._clock()

    def clear(self) -> None:
        """Hides the line until the next step."""
        with self._lock:
            self._hide()
            self._step = self._stage = ""

    def end(self) -> None:
        """Removes the line for good."""
        with self._lock:
            self._ended = True
            self._hide()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hides the line inside the block, so that other lines can be printed."""
        with self._lock:
            self._hide()
            try:
                yield
            finally:
                self._show()

    def _show(self) -> None:
        with self._lock:
            if self._live is None and self._step and not self._ended:
                colored = self._colored
                terminal = {"color_system": "standard" if colored else None, "no_color": not colored}
                terminal |= {"force_terminal": True, "force_jupyter": False}
                self._live = live_on_stderr(self._line, _PER_SECOND, **terminal)
                self._live.start(refresh=True)

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, width: int) -> Text:
        """The current line; names are cut if needed, figures never."""
        from rich.cells import cell_len, set_cell_size
        from rich.text import Text

        head = ": ".join(part for part in (self._stage, self._step) if part)
        took = max(self._clock() - self._since, 0)
        parts = (head, self._part, self._skip if took >= LONG_S else "")
        head = one_line(", ".join(part for part in parts if part))
        share = "" if self._share is None else f"{self._share:.0%}  "
        seconds = f"{took:.0f} s"
        room = max(width - 1 - len(f"    {share}{seconds}"), 0)
        if cell_len(head) > room:
            head = set_cell_size(head, max(room - 3, 0)) + "..."[:room]
        line = Text(f"  {head}  ", no_wrap=True, overflow="crop", end="")
        line.append(share, "cyan")
        line.append(seconds, "cyan")
        return line


def live_on_stderr(picture: Callable[[int], Text], per_second: float, **terminal: Any) -> Live:
    """Makes live lines on stderr. picture: makes them for a number of columns."""
    from rich.console import Console  # here: in a pipe nobody waits for its import
    from rich.live import Live

    console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False, **terminal)
    return Live(
        get_renderable=lambda: picture(console.width),
        console=console,
        refresh_per_second=per_second,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
