"""Reports that a long step is still running, and for how long."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str], None]

FIRST_S = 2.0
"""After so long a step is named that was begun without a word."""

LONG_S = 10.0
"""After so long a step is told with the flag that leaves its stage out."""

PERIOD_S = 5.0
"""After so long without a line the step is named again, then after 10 s, 20 s, 40 s, ..."""


class Steps(ABC):
    """A Progress that distinguishes lasting steps from lines. Calling it announces a step at once."""

    @abstractmethod
    def __call__(self, text: str) -> None:
        """Begins a step, and announces it at once."""

    @abstractmethod
    def step(self, text: str) -> None:
        """Begins a step, announced only if it takes long."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Prints a line that begins and ends no step."""

    @abstractmethod
    def done(self, text: str) -> None:
        """Ends a step and announces that at once; nothing follows until the next step."""

    @abstractmethod
    def share(self, part: str, done: float, text: str) -> None:
        """Reports the done share of the step, from 0 to 1, and its current part.

        text: the same as a line, for those who show nothing but lines; "" where they have had one a moment ago.
        """

    def stage(self, name: str, skip: str = "") -> None:  # noqa: B027  most show it by its end alone
        """Assigns the following steps to this stage. skip: how to leave it out, such as "--no-verify skips it"."""


class ProgressReporter(Steps):
    """Prints steps as lines: at once, or only if they take long.

    Further lines come from a thread of its own: one for each step that takes long, and again every few seconds.
    """

    def __init__(self, progress: Progress, first_s: float = FIRST_S, period_s: float = PERIOD_S) -> None:
        self._progress, self._first_s, self._period_s = progress, first_s, period_s
        self._changed = threading.Condition()
        self._step = self._skip = ""
        self._begun = self._due = 0.0
        self._ended = False
        self._thread = threading.Thread(target=self._watch, name="signs of life", daemon=True)
        self._thread.start()

    def __call__(self, text: str) -> None:
        """Begins a step, and announces it at once."""
        self._set(text, self._period_s)
        self._progress(text)

    def step(self, text: str) -> None:
        """Begins a step, announced only if it takes long."""
        self._set(text, self._first_s)

    def note(self, text: str) -> None:
        """Prints a line that begins and ends no step."""
        self._progress(text)

    def done(self, text: str) -> None:
        """Ends a step and announces that at once; nothing follows until the next step."""
        self._set("", 0.0)
        self._progress(text)

    def share(self, part: str, done: float, text: str) -> None:
        """Prints only the line, if there is one."""
        if text:
            self(text)

    def stage(self, name: str, skip: str = "") -> None:
        """Prints the stage's name with its seconds when it ends."""
        self._skip = skip

    def end(self) -> None:
        """Stops all further output."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def _set(self, text: str, wait_s: float) -> None:
        with self._changed:
            self._step, self._begun = text, time.monotonic()
            self._due = self._begun + wait_s
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                if not self._step:
                    self._changed.wait()
                elif now < self._due:
                    self._changed.wait(self._due - now)
                else:
                    took = now - self._begun
                    self._due = now + max(self._period_s, took)
                    skip = f"; {self._skip}" if self._skip and took >= LONG_S else ""
                    try:
                        self._progress(f"{self._step}: {took:.0f} s so far{skip}")
                    except Exception:
                        # Of whoever listens: it comes again where a step begins, and is raised there.
                        return


@contextmanager
def progress_reports(progress: Progress) -> Iterator[Steps]:
    """Makes `progress` hear of long steps inside the block. A Steps is passed on unchanged."""
    if isinstance(progress, Steps):
        yield progress
        return
    telling = ProgressReporter(progress)
    try:
        yield telling
    finally:
        telling.end()


def steps_of(progress: Progress | None) -> Progress:
    """For steps that are mostly short: told only if they take long, and not at all to a plain function."""
    return progress.step if isinstance(progress, Steps) else silent


def notes_of(progress: Progress) -> Progress:
    """Returns the function for findings, which stay on screen when steps share one line."""
    return progress.note if isinstance(progress, Steps) else progress


def silent(text: str) -> None:
    """A progress function that ignores its lines."""
    del text
