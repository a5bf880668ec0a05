"""Prints what changed between two results of a batch."""

from __future__ import annotations

from collections.abc import Mapping

from trtsmith.converter.batch.results.changes import BETTER, DIFFERENT, WORSE, Change
from trtsmith.converter.batch.results.diff import ResultsDiff
from trtsmith.converter.batch.results.task_result import BatchResults
from trtsmith.converter.cli.console import table

_MOST_ITEMS = 5
"""Of a change; --json and --html have all."""

_MOST_CHARACTERS = 120
"""Of a name or a message."""


def render(diff: ResultsDiff) -> str:
    """The difference for people: versions once, then every task that changed, worse ones first."""
    parts = [_head(diff)]
    if diff.versions:
        rows = [(one.package, one.old or "none", "->", one.new or "none") for one in diff.versions]
        parts.append("versions that changed\n" + _indented(table(rows)))
    for mark in (WORSE, BETTER, DIFFERENT):
        tasks = diff.of(mark)
        if tasks:
            rows = [
                (
                    _short(task.name) if first else "",
                    change.mark if change.mark != mark else "",
                    *_cells(change),
                )
                for task in tasks
                for first, change in zip((True, *(False,) * len(task.changes)), task.changes, strict=False)
            ]
            parts.append(f"{mark}: {_tasks(len(tasks))}\n{_indented(table(rows))}")
    for name, statuses in (("new", diff.added), ("gone", diff.gone)):
        if statuses:
            parts.append(
                f"{name}: {_tasks(len(statuses))}\n{_indented(table([(_short(task), status) for task, status in statuses.items()]))}"
            )
    parts.append(_summary(diff))
    return "\n\n".join(parts)


def _head(diff: ResultsDiff) -> str:
    return table([_side("old:", diff.old), _side("new:", diff.new)])


def _side(label: str, results: BatchResults) -> tuple[str, ...]:
    return label, results.origin, _tasks(len(results.tasks)), results.written


def _cells(change: Change) -> tuple[str, str]:
    old, new = _short(change.old), _short(change.new)
    text = f"{old} -> {new}" if old and new else f"new: {new}" if new else f"gone: {old}"
    notes = [_short(change.note)] if change.note else []
    if change.aspect == "routes":
        more = len(change.items) - _MOST_ITEMS
        notes += [*map(_short, change.items[:_MOST_ITEMS]), *([f"and {more} more"] if more > 0 else [])]
    return change.aspect, f"{text} ({'; '.join(notes)})" if notes else text


def _summary(diff: ResultsDiff) -> str:
    counts: Mapping[str, int] = diff.to_json()["summary"]
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
