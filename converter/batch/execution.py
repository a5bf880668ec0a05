"""Runs tasks: a pool of processes on this machine, or a Ray cluster. Both are used alike, and give the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import TaskRecord


@dataclass(frozen=True)
class TaskEnd:
    """A task that has ended. folder: on this machine, with all files of the record, or None where it left none; whoever
    takes it removes it, or moves its files away."""

    task: BatchTask
    record: TaskRecord
    folder: Path | None


@dataclass(frozen=True)
class Event:
    """Of a task that is running. text: a line for people, "" for none; step: what it is doing; share: how much of that is
    done, from 0 to 1, None if nobody knows."""

    task: str
    text: str
    step: str = ""
    share: float | None = None
    place: str = ""


Listener = Callable[[Event], None]


class TaskExecutor(Protocol):
    """Used in a with statement: at its end nothing of it runs any more, whatever happened."""

    def __enter__(self) -> TaskExecutor: ...

    def __exit__(self, *error: object) -> None: ...

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """What the task's result depends on of the machine that it is run on, for its key; None where that is not known.
        It may be asked before `run`."""

    def stop(self) -> None:
        """Called while `run` is at work, from another thread or a signal handler: no further task is begun, those that run
        end as cancelled; `run` gives them, and what has ended before, and ends."""

    def run(self, tasks: Sequence[BatchTask], listener: Listener) -> Iterator[TaskEnd]:
        """Each task once, as it ends, in any order; it may be called again after that.

        A task that cannot be done is a record that says so, no exception; UsageError is for what no task can be done with,
        such as a cluster that is not there."""
