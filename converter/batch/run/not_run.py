"""Records of tasks that no process had: cancelled before, or impossible where they should run."""

from __future__ import annotations

import platform

from trtsmith.converter.batch.task import ENGINE, BatchTask
from trtsmith.converter.batch.task_record import TaskRecord, TaskStatus
from trtsmith.importers.problem import Problem


def command_of(task: BatchTask) -> tuple[str, ...]:
    """The command line that does the same by hand."""
    return ("trtsmith", "convert", task.source, "-o", ENGINE, *task.words)


def record_of(task: BatchTask, status: TaskStatus, *problems: Problem) -> TaskRecord:
    """Of a task that was not run, and why."""
    return TaskRecord(
        name=task.name,
        model=task.model,
        variant=dict(task.variant),
        status=status,
        command=command_of(task),
        problems=problems,
        place={"host": platform.node(), "gpu": "", "pid": 0},
    )


def cancellation(task: BatchTask) -> Problem:
    """What is said of a task that somebody ended, or that was never begun."""
    return Problem(
        "the task was ended before it was done",
        task.name,
        "a batch that is left to end",
        "run the same command again: it does what is left",
    )
