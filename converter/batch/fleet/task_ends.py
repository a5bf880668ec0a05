"""Records of tasks that a cluster could not do: lost with their machine, cancelled, without their files."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.batch.execution import TaskEnd
from trtsmith.converter.batch.fleet.node_task import Began
from trtsmith.converter.batch.run.not_run import cancellation, record_of
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import TaskStatus
from trtsmith.importers.problem import Problem


def lost_end(
    task: BatchTask, error: BaseException, began: Began | None, attempts: int, out_of_memory: bool
) -> TaskEnd:
    """A task that was lost in its last attempt. error: what Ray said."""
    said = " ".join(str(error).split()) or type(error).__name__
    if out_of_memory:
        problem = Problem(
            f"the machine ran out of memory, and Ray ended the task: {said}",
            task.name,
            "tasks that fit into the memory of their machine together",
            "say in the zoo how much `memory` it takes: Ray then gives the machine no more tasks than fit",
        )
    else:
        problem = Problem(
            f"its worker or its machine was lost {attempts} times; the last time Ray said: {said}",
            task.name,
            "a machine that stays until the task ends",
            "run the same command again: it does what is left",
        )
    status = TaskStatus.MEMORY if out_of_memory else TaskStatus.LOST
    return _end(task, status, problem, began, attempts)


def stranded_end(task: BatchTask, attempts: int) -> TaskEnd:
    """A task for which the cluster has no machine any more."""
    problem = Problem(
        "no machine is left in the cluster that can run it",
        task.name,
        "a machine that stays until the task ends",
        "add such a machine to the cluster, and run the same command again: it does what is left",
    )
    return _end(task, TaskStatus.LOST, problem, None, attempts)


def cancelled_end(task: BatchTask, began: Began, attempts: int) -> TaskEnd:
    """A task that was at work when the batch was stopped."""
    return _end(task, TaskStatus.CANCELLED, cancellation(task), began, attempts)


def mistake_end(task: BatchTask, error: BaseException | Problem, attempts: int) -> TaskEnd:
    """A task whose machine cannot have its files, as the problem says, or on which code of ours failed."""
    if isinstance(error, Problem):
        return _end(task, TaskStatus.INVALID, error, None, attempts)
    problem = Problem(
        f"trtsmith failed: {type(error).__name__}: {error}",
        task.name,
        "no such error",
        "report it, with the zoo's entry",
    )
    return _end(task, TaskStatus.CRASHED, problem, None, attempts)


def without_files(task: BatchTask, error: OSError, attempts: int) -> TaskEnd:
    """A task with a file that cannot be read on this machine, or whose result cannot be written."""
    problem = Problem(
        f"a file cannot be used: {error.strerror or error}",
        f"{task.name}: {error.filename or 'its result'}",
        "files that can be read, and a folder with room for results",
        "correct the path or its permissions, or free some space",
    )
    return _end(task, TaskStatus.INVALID, problem, None, attempts)


def _end(
    task: BatchTask, status: TaskStatus, problem: Problem, began: Began | None, attempts: int
) -> TaskEnd:
    record = replace(record_of(task, status, problem), attempts=attempts)
    if began is not None:
        record = replace(record, place={"host": began.host, "gpu": "", "pid": began.pid})
    return TaskEnd(task, record, None)
