"""Prints a batch's events as lines; untrusted names stay on one line, without control characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from trtsmith.batch_function import SOURCES, seconds_text
from trtsmith.converter.base.printable import in_brief
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


def reason_of(record: TaskRecord) -> tuple[object, ...]:
    """Returns what kept a task from passing, which is equal for tasks that share it; () for one that passed."""
    where = {record.name: ""}
    problems = (replace(one, where=where.get(one.where, one.where)) for one in record.problems)
    return (*problems, *verdict_lines(record))


def verdict_lines(record: TaskRecord) -> Iterator[str]:
    """Lists why a converted task did not pass, and what to do about it, in brief; nothing of one that passed."""
    verdict = (record.report or {}).get("verdict")
    if record.status.passed or not verdict:
        return
    for name in ("reason", "advice"):
        if said := in_brief(verdict[name]):
            yield f"  {'next' if name == 'advice' else name}: {said}"


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
    lines = [said, f"results: {one_line(str(result.folder / 'index.html'))}"]
    if result.left:
        lines.append(
            f"left:    results of {in_brief(', '.join(result.left))}, which the zoo no longer has: remove their folders"
        )
    return "\n".join(lines)
