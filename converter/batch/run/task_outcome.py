"""Says what came of a task: its status, and problems in four parts, from what its process answered or how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtsmith.converter.batch.run.not_run import cancellation
from trtsmith.converter.batch.run.process_watch import LimitReached
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import TaskStatus
from trtsmith.converter.engine.child.pool import Outcome
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_FAILED, EXIT_OK, TrtsmithError
from trtsmith.importers.problem import Problem

_LAST_WORDS = 2000
"""Characters of what a process printed before it died."""


@dataclass(frozen=True)
class TaskOutcome:
    """The part of a record that depends on what happened."""

    status: TaskStatus
    problems: tuple[Problem, ...] = ()
    report: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def cancelled(task: BatchTask) -> TaskOutcome:
    """Of a task that somebody ended."""
    return TaskOutcome(TaskStatus.CANCELLED, (cancellation(task),))


def without_room(task: BatchTask, error: OSError) -> TaskOutcome:
    """Of a task whose folder failed."""
    problem = Problem(
        f"the files of the task cannot be written: {error.strerror or error}",
        f"{task.name}: {error.filename or 'its folder'}",
        "a folder with room that can be written",
        "free some space, or name another folder with -o",
    )
    return TaskOutcome(TaskStatus.INVALID, (problem,))


def outcome_of(
    task: BatchTask, answer: Outcome, reached: LimitReached | None, peak_mib: float
) -> TaskOutcome:
    """What came of a task. reached: the limit for which its processes were ended; they may have answered before."""
    if answer.found is not None:
        return _answered(answer.found)
    if reached is LimitReached.ASKED:
        return cancelled(task)
    if reached is LimitReached.TIME:
        return _ended(
            task,
            TaskStatus.TIMEOUT,
            f"it did not end within {task.needs.timeout_s:g} s",
            "a conversion that ends in its time",
            "give it a larger `timeout` in the zoo",
            answer,
        )
    if reached is LimitReached.MEMORY:
        return _ended(
            task,
            TaskStatus.MEMORY,
            f"its processes took {peak_mib:.0f} MiB together, of {task.needs.memory_mib} that it may take",
            "a conversion within its memory",
            "give it a larger `memory` in the zoo, or fewer --jobs on a machine without more",
            answer,
        )
    if isinstance(answer.error, TrtsmithError):
        return TaskOutcome(TaskStatus.CRASHED, answer.error.problems)
    assert isinstance(answer.error, ChildDied)
    return _ended(
        task,
        TaskStatus.CRASHED,
        f"the process that converts {answer.error}",
        "a result, or a message that says what is wrong with the model",
        "run the task's command by hand with -v; if it dies again, report what it prints",
        answer,
    )


def _ended(
    task: BatchTask, status: TaskStatus, what: str, expected: str, fix: str, answer: Outcome
) -> TaskOutcome:
    error = answer.error
    said = error.log if isinstance(error, ChildDied) else answer.said
    words = said.strip()[-_LAST_WORDS:]
    phase = (
        f", while {error.phase}" if isinstance(error, ChildDied) and status is not TaskStatus.CRASHED else ""
    )
    last = f". The last that it printed:\n{words}" if words else ""
    return TaskOutcome(status, (Problem(f"{what}{phase}{last}", task.name, expected, fix),))


def _answered(found: Mapping[str, Any]) -> TaskOutcome:
    report = found["report"]
    given = report or {}
    return TaskOutcome(
        status=_status(found),
        problems=tuple(Problem(**problem) for problem in found["problems"]),
        report=report,
        bench=found["bench"],
        warnings=tuple(dict.fromkeys([*given.get("warnings", ()), *found["warnings"]])),
        seconds={**given.get("seconds", {}), **found["seconds"]},
        versions=_versions(found["versions"], given.get("engine")),
    )


def _status(found: Mapping[str, Any]) -> TaskStatus:
    code, report, death = found["exit_code"], found["report"] or {}, found["death"]
    if code == EXIT_OK:
        return TaskStatus.CONVERTED if report.get("verdict") is None else TaskStatus.AGREE
    if code == EXIT_DISAGREE:
        return TaskStatus.DISAGREE
    if death is not None and death["timed_out"]:
        return TaskStatus.TIMEOUT
    if code == EXIT_FAILED:
        converted = bool(report.get("converted"))  # then it is the timing that failed
        return TaskStatus.CRASHED if converted or (death and not death["refused"]) else TaskStatus.REFUSED
    return TaskStatus.INVALID


def _versions(installed: Mapping[str, str], engine: Mapping[str, Any] | None) -> dict[str, str]:
    """Of the TensorRT that built the engine, and not of another one that is installed, too."""
    if engine is None:
        return dict(installed)
    others = {name for name in installed if name.startswith("tensorrt")} - {engine["flavour"]}
    return {name: version for name, version in installed.items() if name not in others}
