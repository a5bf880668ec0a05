"""Drives a batch: what is there already is kept, what was done before comes from the cache, the rest is run."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from trtsmith.converter.batch.batch_result import BatchResult
from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.cache.keys import Keys
from trtsmith.converter.batch.cache.store import Store
from trtsmith.converter.batch.execution import Event, TaskEnd, TaskExecutor
from trtsmith.converter.batch.interrupts import Interrupts
from trtsmith.converter.batch.output_folder import OutputFolder, cannot_write
from trtsmith.converter.batch.results.task_row import CACHE, KEPT, RUN, task_row
from trtsmith.converter.batch.results.write import write_rows
from trtsmith.converter.batch.run.not_run import cancellation, command_of, record_of
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import TaskRecord, TaskStatus
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.importers.problem import Problem

WRITE_S, WRITE_SHARE = 5.0, 20.0
"""The pages are written again after so many seconds, and after so many times what writing took: 5 % of the time at most."""


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is run.

    folder:       where results go.
    executor:     makes what runs tasks; gets a folder for all that it writes.
    store:        the cache; None: without one.
    retry_failed: also tasks are done again that would be refused again.
    others:       tasks that are left out now; what the folder has of them stays in its pages.
    title:        of the pages.
    hashes:       of files, which what runs tasks may share.
    """

    folder: Path
    executor: Callable[[Path], TaskExecutor]
    store: Store | None = None
    retry_failed: bool = False
    others: Sequence[BatchTask] = ()
    title: str = ""
    hashes: FileHashes = field(default_factory=FileHashes)


class BatchListener(Protocol):
    """Is told what happens, in the thread that drives the batch."""

    def planned(self, total: int) -> None:
        """So many tasks there are."""

    def event(self, event: Event) -> None:
        """Of a task that is running."""

    def ended(self, record: TaskRecord, source: str) -> None:
        """A task has ended, and its folder is there, unless it was cancelled. source: run, cache or kept."""


def run_batch(tasks: Sequence[BatchTask], options: BatchOptions, listener: BatchListener) -> BatchResult:
    """Do all tasks. A signal ends it in order; so does whatever else, and a second call does what is left.

    UsageError where the folder cannot be written or is in use, and for what no task can be done with, such as a cluster that
    is not there.
    """
    with (
        OutputFolder(options.folder, tasks) as output,
        Interrupts() as interrupts,
    ):
        batch = _BatchRun(tasks, options, listener, output, interrupts)
        try:
            batch.run()
            batch.cancel_rest()
            batch.write()
        except BrokenPipeError:  # whoever reads what the listener prints has gone away
            batch.write_quietly()
            raise
        except OSError as error:
            batch.write_quietly()
            raise cannot_write(output.folder, error) from error
        except BaseException:
            batch.write_quietly()
            raise
        return batch.result()


class _BatchRun:
    """One run. Of each task that has ended it holds what the pages show of it, and not its record, which can be large."""

    def __init__(
        self,
        tasks: Sequence[BatchTask],
        options: BatchOptions,
        listener: BatchListener,
        output: OutputFolder,
        interrupts: Interrupts,
    ) -> None:
        self._tasks, self._options, self._listener = tasks, options, listener
        self._output, self._interrupts = output, interrupts
        self._keys: dict[str, str] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._statuses: dict[str, TaskStatus] = {}
        self._sources: dict[str, str] = {}
        self._began = self._written = time.monotonic()
        self._write_took = 0.0

    def run(self) -> None:
        self._listener.planned(len(self._tasks))
        self._read_others(self._options.others)
        with self._options.executor(self._output.scratch) as executor:
            hashes = Keys(executor.machine_of, self._options.hashes)
            hashes.read(self._tasks)
            left = []
            for task in self._tasks:
                if self._interrupts.heard:
                    return
                self._keys[task.name] = hashes.of(task)
                if not self._is_kept(task) and not self._is_cached(task):
                    left.append(task)
            first, alike = self._once_each(left)
            self._execute(executor, first, hashes)
            again = [task for task in alike if self._interrupts.heard or not self._is_cached(task)]
            self._execute(executor, again, hashes)

    def result(self) -> BatchResult:
        return BatchResult(
            self._output.folder,
            {task.name: self._statuses[task.name] for task in self._tasks},
            {task.name: self._sources[task.name] for task in self._tasks},
            round(time.monotonic() - self._began, 3),
            self._interrupts.heard,
        )

    def cancel_rest(self) -> None:
        """Say of each task that has not ended why."""
        for task in self._tasks:
            if task.name not in self._statuses:
                if self._interrupts.heard:
                    record = record_of(task, TaskStatus.CANCELLED, cancellation(task))
                else:
                    record = record_of(task, TaskStatus.LOST, _unheard(task))
                    self._output.publish(record, None)
                self._note(record, RUN)

    def write(self) -> None:
        """The pages of what there is. OSError where they cannot be written."""
        started = time.monotonic()
        planned = len(self._tasks) + len(self._rows.keys() - {task.name for task in self._tasks})
        write_rows(
            self._output.folder,
            list(self._rows.values()),
            title=self._options.title,
            planned=planned,
            wall_s=round(started - self._began, 3),
        )
        self._written = time.monotonic()
        self._write_took = self._written - started

    def write_quietly(self) -> None:
        """The same, where something else is to be said: what ended, and what the folder has of the other tasks. Where
        nothing has ended the pages stay as they are."""
        if not self._statuses:
            return
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
        if not self._output.is_whole(record):
            return False
        self._note(record, KEPT)
        return True

    def _is_cached(self, task: BatchTask) -> bool:
        key, store = self._keys[task.name], self._options.store
        record = store.find(key) if store is not None and key else None
        if record is None or store is None or not self._is_wanted(record):
            return False
        folder = self._output.new_folder()
        if not store.place(record, folder):
            return False
        variant = dict(task.variant)
        mine = replace(
            record, name=task.name, model=task.model, variant=variant, command=command_of(task), key=key
        )
        self._output.publish(mine, folder)
        self._note(mine, CACHE)
        return True

    def _is_wanted(self, record: TaskRecord) -> bool:
        """Whether what was done before will do."""
        return record.status.settled and not (
            self._options.retry_failed and record.status is TaskStatus.REFUSED
        )

    def _once_each(self, tasks: Sequence[BatchTask]) -> tuple[list[BatchTask], list[BatchTask]]:
        """The tasks to run first, and those that are the same as one of them: they wait for what the cache then has."""
        first, alike, keys = [], [], set()
        for task in tasks:
            key = self._keys[task.name]
            if key and key in keys and self._options.store is not None:
                alike.append(task)
            else:
                first.append(task)
                keys.add(key)
        return first, alike

    def _execute(self, executor: TaskExecutor, tasks: Sequence[BatchTask], hashes: Keys) -> None:
        if not tasks or self._interrupts.heard:
            return
        self._interrupts.then(executor.stop)
        try:
            for ended in executor.run(tasks, self._listener.event):
                self._take(ended, unchanged=hashes.unchanged(ended.task))
        finally:
            self._interrupts.then(None)

    def _take(self, ended: TaskEnd, *, unchanged: bool) -> None:
        """Publish what has ended. OSError where that cannot be done: then no other task's can, either.

        unchanged: whether its files are those that were hashed; else nobody knows of which of them the engine is.
        """
        record, store = ended.record, self._options.store
        if record.status is TaskStatus.CANCELLED:
            if ended.folder is not None:
                shutil.rmtree(ended.folder, ignore_errors=True)
            self._note(record, RUN)
            return
        record = replace(record, key=self._keys[record.name] if unchanged else "")
        self._output.publish(record, ended.folder)
        if store is not None and record.key and record.status.settled:
            store.add(record, self._output.folder / record.name)
        self._note(record, RUN)

    def _note(self, record: TaskRecord, source: str) -> None:
        self._rows[record.name] = task_row(record, source)
        self._statuses[record.name] = record.status
        self._sources[record.name] = source
        self._listener.ended(record, source)
        if time.monotonic() - self._written > max(WRITE_S, WRITE_SHARE * self._write_took):
            self.write()


def _unheard(task: BatchTask) -> Problem:
    """Of a task that what runs tasks has dropped."""
    return Problem(
        "nothing came back of the task", task.name, "a record of what came of it", "run the command again"
    )
