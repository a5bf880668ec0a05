"""Prints a batch's events as lines; untrusted names stay on one line, without control characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trtsmith.batch_function import SOURCES, seconds_text
from trtsmith.converter.batch.driver import BatchResult
from trtsmith.converter.batch.results.document import RUN
from trtsmith.converter.batch.task import TaskRecord, TaskStatus
from trtsmith.converter.cli.console import one_line
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem

_MOST_PROBLEMS = 3
"""Of a task; its record has all."""


def problems_of(record: TaskRecord) -> list[Problem]:
    """Returns the problems of a task that did not pass, with its name, for the screen."""
    shown = [
        Problem(problem.what, _at(record.name, problem.where), problem.expected, problem.fix)
        for problem in record.problems[:_MOST_PROBLEMS]
    ]
    more = len(record.problems) - len(shown)
    if more > 0:
        last = shown[-1]
        said = f"{last.what}\n(and {more} more, which the task's record has)"
        shown[-1] = Problem(said, last.where, last.expected, last.fix)
    return shown


def _at(name: str, where: str) -> str:
    name = one_line(name)
    return name if where in ("", name) else f"{name}: {where}"


def totals(statuses: Mapping[TaskStatus, int]) -> str:
    """Returns the counts of statuses as text, such as "3 agree, 1 refused" in the order of TaskStatus."""
    return ", ".join(f"{statuses[status]} {status.value}" for status in TaskStatus if statuses.get(status))


def summary(result: BatchResult) -> str:
    """Renders the results of the batch, for stdout."""
    count = len(result.statuses)
    ended = [name for name, status in result.statuses.items() if status is not TaskStatus.CANCELLED]
    sources = Counter(result.sources[name] for name in ended)
    parts = [
        f"{sources[name]} {text}" for name, text in ((RUN, "done now"), *SOURCES.items()) if sources.get(name)
    ]
    said = f"{counted(count, 'task')} in {seconds_text(result.seconds)}: {totals(Counter(result.statuses.values()))}"
    said += f" ({', '.join(parts)})" if parts else ""
    return f"{said}\nresults: {one_line(str(result.folder / 'index.html'))}"
