"""Shows the progress of a batch: a line for each finished task, and on a terminal a live line for each running task."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trtsmith.batch_function import ProgressLines, ended_line, seconds_text
from trtsmith.converter.batch.results.document import RUN, warnings_of
from trtsmith.converter.batch.task import Event, TaskRecord, TaskStatus
from trtsmith.converter.cli.console import Console, one_line
from trtsmith.converter.cli.reports.batch_lines import problems_of, reason_of, totals, verdict_lines
from trtsmith.converter.cli.terminal.colors import is_terminal
from trtsmith.converter.cli.terminal.live_line import live_on_stderr

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_PER_SECOND = 4
_MOST_RUNNING = 12
"""Tasks that have a line; of a large cluster more run."""


class BatchProgress(ProgressLines):
    """A BatchListener that prints lines, with the reason below where a task did not pass; on a quiet console these alone.

    A reason or warning that several tasks share is printed once. Warnings of cached tasks are in the pages and not repeated.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console.say)
        self._console = console
        self._first: dict[object, str] = {}  # by reason or warning, the task for which it was printed

    def event(self, event: Event) -> None:
        if self._console.verbose and event.text:
            self._console.say(f"{event.task}: {event.text}")

    def ended(self, record: TaskRecord, source: str) -> None:
        self._ended += 1
        self._tell(record, source)

    def _tell(self, record: TaskRecord, source: str) -> None:
        reason = reason_of(record) if record.status is not TaskStatus.CANCELLED else ()
        if reason or not self._console.quiet:
            self._progress(ended_line(record, source, self._ended, self._total))
        for warning in warnings_of(record) if source == RUN else ():
            if self._first.setdefault(warning, record.name) == record.name:
                self._console.say(f"  warning: {one_line(warning)}")
        if not reason:
            return
        first = self._first.setdefault(reason, record.name)
        if first != record.name:
            self._console.block(f"  the reason is that of {one_line(first)}")
            return
        self._console.problems(problems_of(record))
        for line in verdict_lines(record):
            self._console.block(line)

    def warn(self, text: str) -> None:
        """Prints a warning in four parts."""
        self._console.block(f"warning: {text}")


@dataclass
class _LiveTask:
    """A running task."""

    since: float
    step: str = ""
    share: float | None = None
    place: str = ""


class LiveBatch(BatchProgress):
    """Shows the progress of a batch above live lines: one for each running task, and totals with the remaining time."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[str, _LiveTask] = {}
        self._statuses: Counter[TaskStatus] = Counter()
        self._begun: float | None = None
        self._done = 0  # of those that were run, and not found
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[LiveBatch]:
        """Shows the live lines until the block ends."""
        self._live = live_on_stderr(self._picture, _PER_SECOND)
        self._live.start()
        try:
            yield self
        finally:
            self._live.stop()
            self._live = None

    def event(self, event: Event) -> None:
        with self._lock:
            now = self._clock()
            self._begun = now if self._begun is None else self._begun
            task = self._running.setdefault(event.task, _LiveTask(now))
            task.step, task.share, task.place = event.step or event.text, event.share, event.place
        if self._console.verbose and event.text:
            with self._above():
                super().event(event)

    def ended(self, record: TaskRecord, source: str) -> None:
        with self._lock:
            self._running.pop(record.name, None)
            self._statuses[record.status] += 1
            self._done += source == RUN
            self._ended += 1
        with self._above():
            self._tell(record, source)

    def warn(self, text: str) -> None:
        with self._above():
            super().warn(text)

    @contextmanager
    def _above(self) -> Iterator[None]:
        """Hides the live lines inside the block, so that other lines can be printed."""
        live = self._live
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()

    def lines(self, columns: int = 80) -> list[str]:
        """Returns the current live lines. columns: of the terminal; longer lines are cut."""
        with self._lock:
            now = self._clock()
            tasks = sorted(self._running.items(), key=lambda item: item[1].since)
            shown = [_running_line(name, task, now, columns) for name, task in tasks[:_MOST_RUNNING]]
            if len(tasks) > _MOST_RUNNING:
                shown.append(f"... and {len(tasks) - _MOST_RUNNING} more")
            said = totals(self._statuses)
            parts = [
                f"{self._ended} of {self._total} ended" + (f" ({said})" if said else ""),
                f"{len(tasks)} running",
            ]
            left = self._left_s(now)
            return [*shown, ", ".join([*parts, *([f"about {seconds_text(left)} left"] if left else [])])]

    def _left_s(self, now: float) -> float | None:
        """The remaining time, if tasks go on at the rate so far. None before the first task has ended."""
        if not self._done or self._begun is None:
            return None
        return (now - self._begun) / self._done * (self._total - self._ended)

    def _picture(self, columns: int) -> Text:
        from rich.text import Text

        return Text("\n".join(self.lines(columns)), no_wrap=True, overflow="ellipsis")


def _running_line(name: str, task: _LiveTask, now: float, columns: int) -> str:
    """A task's line. Its name gets half of the width and keeps its end, which names the variant."""
    share = "" if task.share is None else f" {task.share:.0%}"
    name, most = one_line(name), max(columns // 2, 12)
    if len(name) > most:
        name = f"{name[: most // 3]}...{name[len(name) - most + most // 3 + 3 :]}"
    return f"{name}: {one_line(task.step)}{share} ({now - task.since:.0f} s)"


@contextmanager
def batch_progress(console: Console) -> Iterator[BatchProgress]:
    """Yields the progress display of a batch on this console: live lines if stderr is a terminal and progress is wanted."""
    if console.quiet or not is_terminal(sys.stderr):
        yield BatchProgress(console)
        return
    with LiveBatch(console).shown() as progress:
        yield progress
