"""Prints a batch's events as lines; untrusted names are shown on one line, without control characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trtsmith.converter.batch.driver import BatchResult
from trtsmith.converter.batch.results.document import CACHE, KEPT, RUN
from trtsmith.converter.batch.task import TaskRecord, TaskStatus
from trtsmith.converter.cli.console import one_line
from trtsmith.importers.problem import Problem

_MOST_PROBLEMS = 3
"""Of a task; its record has all."""

_SOURCES = {KEPT: "kept", CACHE: "from the cache"}


def ended_line(record: TaskRecord, source: str, number: int, total: int) -> str:
    """[12/40] net/sm86: agree (3.2 s)"""
    took = _SOURCES.get(source) or seconds_text(record.seconds.get("total", 0.0))
    return f"[{number}/{total}] {one_line(record.name)}: {record.status.value} ({took})"


def problems_of(record: TaskRecord) -> list[Problem]:
    """What is shown of why a task did not pass, with its name."""
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
    """3 agree, 1 refused"""
    return ", ".join(f"{statuses[status]} {status.value}" for status in TaskStatus if statuses.get(status))


def summary(result: BatchResult) -> str:
    """The results of the batch, for stdout."""
    count = len(result.statuses)
    ended = [name for name, status in result.statuses.items() if status is not TaskStatus.CANCELLED]
    sources = Counter(result.sources[name] for name in ended)
    parts = [
        f"{sources[name]} {text}"
        for name, text in ((RUN, "done now"), *_SOURCES.items())
        if sources.get(name)
    ]
    said = f"{count} task{'s' * (count != 1)} in {seconds_text(result.seconds)}: {totals(Counter(result.statuses.values()))}"
    said += f" ({', '.join(parts)})" if parts else ""
    return f"{said}\nresults: {one_line(str(result.folder / 'index.html'))}"


def seconds_text(seconds: float) -> str:
    """3.2 s, 4 min 10 s, 2 h 5 min"""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
