"""Watches a task's processes: measures their memory, and ends them all at a limit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

import psutil

PERIOD_S = 0.2
"""Between two looks, each of which takes 1.5 ms where 100 processes run."""

_FREEZE_S, _FREEZE_TRIES = 0.002, 100
"""A signal is heard when the system call that a process is in ends."""

_AT_REST = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class LimitReached(Enum):
    """Why processes were ended."""

    TIME = "time"
    MEMORY = "memory"
    ASKED = "asked"


class ProcessWatch:
    """Looks at processes and all that descend from them, from a thread of its own, in a with statement.

    roots:      gives the processes that are watched; they may come late.
    memory_mib: the most that they may take together, of what is resident; None: no limit.
    timeout_s:  how long they may take, from now; None: no limit.
    mark:       a variable of their environment, as NAME=VALUE, that no other process has: by it those are found that have
        left their session and their parents. "": there is none.

    reached:  the limit for which they were ended, if any.
    peak_mib: the most memory that was seen. What lies in the same pages of several processes counts in each.
    pid:      of the root that was seen last; 0 for none.
    """

    def __init__(
        self,
        roots: Callable[[], Sequence[int]],
        memory_mib: float | None,
        timeout_s: float | None,
        mark: str = "",
    ) -> None:
        self.reached: LimitReached | None = None
        self.peak_mib = 0.0
        self.pid = 0
        self._roots = roots
        self._mark = mark
        self._memory_mib = memory_mib
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._seen: dict[int, psutil.Process] = {}  # that descend from the roots, and may outlive them
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="process watch", daemon=True)

    def __enter__(self) -> ProcessWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Looks once more, and ends what has outlived its task."""
        self._over.set()
        self._thread.join()
        with self._lock:
            self._look()
            _kill([*self._seen.values(), *_marked(self._mark, self._roots())])

    def stop(self) -> None:
        """End them, because somebody asked for it."""
        with self._lock:
            self.reached = self.reached or LimitReached.ASKED
            self._look()

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        roots = [process for pid in self._roots() for process in _process(pid)]
        memory = 0
        for root in roots:
            memory += _resident(root)
            self.pid = root.pid
            with contextlib.suppress(psutil.Error):
                self._seen |= {process.pid: process for process in root.children(recursive=True)}
        memory += sum(_resident(process) for process in self._seen.values())
        self.peak_mib = max(self.peak_mib, memory / 2**20)
        if self.reached is None and self._memory_mib is not None and memory > self._memory_mib * 2**20:
            self.reached = LimitReached.MEMORY
        if self.reached is None and self._until is not None and time.monotonic() >= self._until:
            self.reached = LimitReached.TIME
        if self.reached is not None:
            _kill([*_frozen(roots), *self._seen.values()])


def _process(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        yield psutil.Process(pid)


def _resident(process: psutil.Process) -> int:
    """In bytes; 0 of a process that has ended."""
    try:
        return int(process.memory_info().rss) if process.is_running() else 0
    except psutil.Error:
        return 0


def _marked(mark: str, roots: Sequence[int]) -> list[psutil.Process]:
    """Processes that have the variable in their environment, but for the roots."""
    found = []
    for process in psutil.process_iter() if mark else ():
        with contextlib.suppress(psutil.Error, OSError):
            name, _, value = mark.partition("=")
            if process.pid not in roots and process.environ().get(name) == value:
                found.append(process)
    return found


def _frozen(roots: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Processes and all that descend from them, stopped: one that goes on could start another meanwhile."""
    found: dict[int, psutil.Process] = {}
    left = list(roots)
    while left:
        process = left.pop()
        found[process.pid] = process
        with contextlib.suppress(psutil.Error):
            process.suspend()
            for _ in range(_FREEZE_TRIES):
                if process.status() in _AT_REST:
                    break
                time.sleep(_FREEZE_S)
            left += [child for child in process.children() if child.pid not in found]
    return list(found.values())


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it has ended; psutil takes no other of its number for it
            process.kill()
