"""Drives a batch: keeps finished results, takes known ones from the cache, and runs the rest."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from trtsmith.converter.base.errors import (
    EXIT_DISAGREE,
    EXIT_FAILED,
    EXIT_NOT_COMPARED,
    EXIT_OK,
    TrtsmithError,
    UsageError,
)
from trtsmith.converter.base.option_values import check_values, is_count
from trtsmith.converter.batch.child import ChildSetup
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.keys import Keys
from trtsmith.converter.batch.local import LocalExecutor
from trtsmith.converter.batch.output_folder import OutputFolder, cannot_write
from trtsmith.converter.batch.results.document import CACHE, KEPT, RUN, task_row
from trtsmith.converter.batch.results.pages import write_rows
from trtsmith.converter.batch.store import Store
from trtsmith.converter.batch.task import (
    RECORD,
    BatchTask,
    Event,
    TaskEnd,
    TaskExecutor,
    TaskRecord,
    TaskStatus,
    cancelled,
    is_selected,
    record_of,
)
from trtsmith.importers.problem import Problem

LOCAL = "local"

WRITE_S, WRITE_SHARE = 5.0, 20.0
"""The pages are rewritten after this many seconds, or this many times the writing's duration: at most 5 % of the time."""

_SHOWN = 5
"""How many of the files of one message are named."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class BatchRequest:
    """The user's request for a batch.

    tasks:        of the zoo, all of them. only: patterns, of which a task's name or model matches one; () for all.
    folder:       where results go. title: of its pages.
    on:           the address of a Ray cluster; "local" for a Ray that is started here; None: processes of this machine.
    jobs:         tasks at a time on this machine; None: as many as it has cores for.
    cache:        its folder; None: there is none.
    retry_failed: also tasks are done again that would be refused again.
    setup:        of the children that convert.
    executor:     what runs tasks, given a folder for all that it writes; None: as `on` and `jobs` say.
    warnings:     of the tasks, each in four parts, told when the batch begins.
    """

    tasks: Sequence[BatchTask]
    folder: Path
    title: str = ""
    only: tuple[str, ...] = ()
    on: str | None = None
    jobs: int | None = None
    cache: Path | None = None
    retry_failed: bool = False
    setup: ChildSetup | None = None
    executor: Callable[[Path], TaskExecutor] | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_values(("--jobs", self.jobs, is_count))
        if self.on not in (None, LOCAL) and self.jobs is not None:
            raise UsageError(
                "--jobs does not apply to a cluster, which runs as many tasks as it has cores for",
                f"--jobs {self.jobs}",
                f"--jobs without --on, or with --on {LOCAL}",
                "remove it; set the cores of a task with cpus in the zoo's [needs]",
            )
        if self.cache is not None and os.path.lexists(self.cache) and not self.cache.is_dir():
            raise UsageError(
                "the cache is not a folder",
                f"--cache {self.cache}",
                "a folder; trtsmith creates it if necessary",
                "choose another folder, or use no cache (--no-cache)",
            )
        for pattern in self.only:
            if not any(is_selected(task.name, task.model, [pattern]) for task in self.tasks):
                raise UsageError(
                    "no task has this name",
                    f"--only {pattern}",
                    "the name of a task or a model, or a pattern as 'resnet*' or '*/sm86'",
                    "trtsmith batch ZOO --list shows all names",
                )

    def chosen(self) -> list[BatchTask]:
        """Returns the tasks that the request selects."""
        return [task for task in self.tasks if is_selected(task.name, task.model, self.only)]


@dataclass(frozen=True)
class BatchResult:
    """The tasks of a batch, by their names, in the order of the zoo.

    folder:   with a folder for each task that has ended, results.json, junit.xml and index.html.
    statuses: how each ended.
    sources:  where it came from: "run", "cache", or "kept" from an earlier batch.
    seconds:  that all took together.
    signal:   the number of the signal that ended it before everything was done; 0 for none.
    left:     tasks of which the folder has results, and which the zoo no longer has.
    """

    folder: Path
    statuses: Mapping[str, TaskStatus]
    sources: Mapping[str, str]
    seconds: float
    signal: int = 0
    left: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every task has an engine that passed."""
        return self.exit_code == EXIT_OK

    @property
    def exit_code(self) -> int:
        """0: all passed. 1: one has no engine, or did not end. 3: all have one, and one disagrees. 4: all have one, none
        disagrees, and of one not all outputs could be compared. 128 + the signal."""
        if self.signal:
            return 128 + self.signal
        others = {status for status in self.statuses.values() if not status.passed}
        if not others:
            return EXIT_OK
        if not others <= {TaskStatus.DISAGREE, TaskStatus.NOT_COMPARABLE}:
            return EXIT_FAILED
        return EXIT_DISAGREE if TaskStatus.DISAGREE in others else EXIT_NOT_COMPARED

    def records(self) -> Iterator[TaskRecord]:
        """Reads the records of finished tasks one at a time, since they can be large."""
        for name, status in self.statuses.items():
            if status is not TaskStatus.CANCELLED:
                yield TaskRecord.from_json((self.folder / name / RECORD).read_bytes())


class BatchListener(Protocol):
    """Receives events, in the thread that drives the batch."""

    def planned(self, total: int) -> None:
        """Announces the number of tasks."""

    def event(self, event: Event) -> None:
        """Receives an event of a running task."""

    def ended(self, record: TaskRecord, source: str) -> None:
        """Receives the end of a task, whose folder exists unless it was cancelled. source: run, cache or kept."""


def run_batch(request: BatchRequest, listener: BatchListener, warn: Callable[[str], None]) -> BatchResult:
    """Runs all tasks. Signals and errors stop it cleanly; a second call does the rest.

    warn: gets the request's and the cache's warnings, each in four parts. UsageError where the folder cannot be written or
    is in use, and where no task can be done, such as without the cluster.
    """
    chosen = request.chosen()
    for warning in request.warnings:
        warn(warning)
    with OutputFolder(request.folder, chosen) as output, _Interrupts() as interrupts:
        batch = _BatchRun(request, chosen, listener, warn, output, interrupts)
        try:
            batch.run()
            batch.cancel_rest()
            batch.write()
        except BaseException as error:
            batch.write_quietly()
            # Of whoever reads our lines.
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                raise cannot_write(output.folder, error) from error
            raise
        return batch.result()


class _BatchRun:
    """One run. Of an ended task it keeps what the pages show, not the record, which can be large."""

    def __init__(
        self,
        request: BatchRequest,
        tasks: Sequence[BatchTask],
        listener: BatchListener,
        warn: Callable[[str], None],
        output: OutputFolder,
        interrupts: _Interrupts,
    ) -> None:
        self._request, self._tasks, self._listener = request, tasks, listener
        self._output, self._interrupts = output, interrupts
        self._warn = warn
        self._unkeyed: set[tuple[str, ...]] = set()
        self._store = None if request.cache is None else Store(request.cache, warn)
        self._hashes = FileHashes()
        self._keys: dict[str, str] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, tuple[TaskStatus, str]] = {}
        self._began = self._written = time.monotonic()
        self._write_took = 0.0

    def run(self) -> None:
        self._listener.planned(len(self._tasks))
        names = {task.name for task in self._tasks}
        self._read_others([task for task in self._request.tasks if task.name not in names])
        with self._executor() as executor:
            keys = Keys(executor.machine_of, self._hashes)
            keys.read(self._tasks)
            first: list[BatchTask] = []
            alike: list[BatchTask] = []
            seen: set[str] = set()
            for task in self._tasks:
                if self._interrupts.heard:
                    return
                key = self._keys[task.name] = keys.of(task)
                if self._is_kept(task) or self._is_cached(task):
                    continue
                # the same conversion waits for what the cache then has
                (alike if key and key in seen and self._store is not None else first).append(task)
                seen.add(key)
            self._execute(executor, first, keys)
            again = [task for task in alike if self._interrupts.heard or not self._is_cached(task)]
            self._execute(executor, again, keys)

    def _executor(self) -> TaskExecutor:
        request, scratch = self._request, self._output.scratch
        setup = request.setup or ChildSetup(cwd=Path.cwd())
        if request.executor is not None:
            return request.executor(scratch)
        if request.on is None:
            return LocalExecutor(scratch, setup, jobs=request.jobs)
        from trtsmith.converter.batch.fleet import RayExecutor

        return RayExecutor(request.on, scratch, setup, self._hashes, jobs=request.jobs)

    def result(self) -> BatchResult:
        statuses = {task.name: self._ends[task.name][0] for task in self._tasks}
        sources = {task.name: self._ends[task.name][1] for task in self._tasks}
        took = round(time.monotonic() - self._began, 3)
        left = self._output.others({task.name for task in self._request.tasks})
        return BatchResult(self._output.folder, statuses, sources, took, self._interrupts.heard, left)

    def cancel_rest(self) -> None:
        """Marks unfinished tasks as cancelled, with the reason."""
        for task in self._tasks:
            if task.name not in self._ends:
                if self._interrupts.heard:
                    self._note(record_of(task, TaskStatus.CANCELLED, cancelled(task)), RUN)
                else:
                    expected, fix = "a record of how it ended", "run the command again"
                    lost = Problem("the task returned no record", task.name, expected, fix)
                    record = record_of(task, TaskStatus.LOST, lost)
                    self._output.publish(record, None)
                    self._note(record, RUN)

    def write(self) -> None:
        """Writes the pages of the results so far. Raises OSError."""
        started = time.monotonic()
        planned = len(self._rows.keys() | {task.name for task in self._tasks})
        write_rows(
            self._output.folder,
            list(self._rows.values()),
            title=self._request.title,
            planned=planned,
            wall_s=round(started - self._began, 3),
            warnings=self._request.warnings,
        )
        self._written = time.monotonic()
        self._write_took = self._written - started

    def write_quietly(self) -> None:
        """The same, where something else is to be said: what ended, and what the folder has of the other tasks. Where
        nothing has ended the pages stay as they are."""
        if self._ends:
            with contextlib.suppress(TrtsmithError, OSError):
                self._read_others([task for task in self._tasks if task.name not in self._rows])
                self.write()

    def _read_others(self, tasks: Sequence[BatchTask]) -> None:
        """Show what the folder has of tasks that are not done now."""
        for task in tasks:
            record = self._output.read(task.name)
            if record is not None:
                self._rows[task.name] = task_row(record, KEPT)

    def _is_kept(self, task: BatchTask) -> bool:
        key = self._keys[task.name]
        record = self._output.read(task.name) if key else None
        if record is None or record.key != key or record.name != task.name or not self._is_wanted(record):
            return False
        if not self._output.is_whole(record, self._hashes):
            return False
        self._note(record, KEPT)
        return True

    def _is_cached(self, task: BatchTask) -> bool:
        key = self._keys[task.name]
        record = self._store.find(key) if self._store is not None and key else None
        if record is None or self._store is None or not self._is_wanted(record):
            return False
        folder = self._output.new_folder()
        if not self._store.place(record, folder):
            return False
        variant = dict(task.variant)
        mine = replace(record, name=task.name, model=task.model, variant=variant, command=task.command)
        self._output.publish(mine, folder)
        self._note(mine, CACHE)
        return True

    def _is_wanted(self, record: TaskRecord) -> bool:
        """Whether what was done before will do."""
        again = self._request.retry_failed and record.status is TaskStatus.REFUSED
        return record.status.settled and not again

    def _execute(self, executor: TaskExecutor, tasks: Sequence[BatchTask], keys: Keys) -> None:
        if not tasks or self._interrupts.heard:
            return
        self._interrupts.then(executor.stop)
        try:
            for ended in executor.run(tasks, self._listener.event):
                self._take(ended, unchanged=keys.unchanged(ended.task))
        finally:
            self._interrupts.then(None)

    def _take(self, ended: TaskEnd, *, unchanged: bool) -> None:
        """Publish what has ended. OSError where that cannot be done: then no other task's can, either.

        unchanged: whether its files still have their hashes; else it is unknown which of them the engine is from.
        """
        record = ended.record
        if record.status is TaskStatus.CANCELLED:
            if ended.folder is not None:
                shutil.rmtree(ended.folder, ignore_errors=True)
        else:
            record = replace(record, key=self._keys[record.name] if unchanged and not record.unkeyed else "")
            if self._keys[record.name] and record.unkeyed:
                self._say_unkeyed(record)
            self._output.publish(record, ended.folder)
            if self._store is not None and record.key and record.status.settled:
                self._store.add(record, self._output.folder / record.name)
        self._note(record, RUN)

    def _say_unkeyed(self, record: TaskRecord) -> None:
        """Once for all tasks that use the same."""
        if record.unkeyed in self._unkeyed:
            return
        self._unkeyed.add(record.unkeyed)
        more = len(record.unkeyed) - _SHOWN
        shown = ", ".join(record.unkeyed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        self._warn(
            str(
                Problem(
                    f"the result is not kept for another batch: the conversion used what its key does not cover: {shown}",
                    f"{record.name}, and tasks like it",
                    "operators whose modules use files of their own package and installed packages only, and plugin "
                    "libraries that link none but the system's; files that nobody changes during the batch",
                    "move the file into the package's folder and name the folder (--ops FOLDER), or install what it is of",
                )
            )
        )

    def _note(self, record: TaskRecord, source: str) -> None:
        self._rows[record.name] = task_row(record, source)
        self._ends[record.name] = record.status, source
        self._listener.ended(record, source)
        if time.monotonic() - self._written > max(WRITE_S, WRITE_SHARE * self._write_took):
            self.write()


class _Interrupts:
    """In a with statement the first signal is only noted, and passed on; a second one raises KeyboardInterrupt.

    heard: the signal's number, 0 for none. A signal that is ignored stays so. Where this is not the main thread, signals
    do what they do.
    """

    def __init__(self) -> None:
        self.heard = 0
        self._then: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def then(self, stop: Callable[[], None] | None) -> None:
        """Registers a call for the next signal, made at once if one has arrived. It may run at any Python
        instruction.
        """
        self._then = stop
        if self.heard and stop is not None:
            stop()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = number
        if self._then is not None:
            self._then()
