"""Prints the differences between two results of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtsmith.converter.batch.results.diff import BETTER, DIFFERENT, WORSE, Change, ResultsDiff, TaskDiff
from trtsmith.converter.batch.results.document import BatchResults
from trtsmith.converter.cli.console import table
from trtsmith.importers.counted import counted

_MOST_ITEMS = 5
"""Of a change; --json and --html have all."""

_MOST_CHARACTERS = 120
"""Of a name or a message."""


def render(diff: ResultsDiff) -> str:
    """Renders the difference: changed versions once, then every changed task, worse ones first."""
    parts = [table([_side("old:", diff.old), _side("new:", diff.new)])]
    if diff.versions:
        packages = [(one.package, one.old or "none", "->", one.new or "none") for one in diff.versions]
        parts.append(_block("versions that changed", packages))
    for mark in (WORSE, BETTER, DIFFERENT):
        tasks = diff.of(mark)
        if tasks:
            parts.append(
                _block(
                    f"{mark}: {counted(len(tasks), 'task')}", [row for task in tasks for row in _rows(task)]
                )
            )
    for name, statuses in (("new", diff.added), ("gone", diff.gone)):
        if statuses:
            parts.append(
                _block(
                    f"{name}: {counted(len(statuses), 'task')}", [(_short(t), s) for t, s in statuses.items()]
                )
            )
    parts.append(_summary(diff))
    return "\n\n".join(parts)


def _block(title: str, rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([title, *(f"  {line}" for line in table(rows).splitlines())])


def _rows(task: TaskDiff) -> list[tuple[str, ...]]:
    """One row for each change; the first has the task's name."""
    names = [_short(task.name), *("" for _ in task.changes[1:])]
    return [
        (name, change.mark if change.mark != task.mark else "", *_cells(change))
        for name, change in zip(names, task.changes, strict=True)
    ]


def _side(label: str, results: BatchResults) -> tuple[str, ...]:
    ended = f"{len(results.tasks)} of " if len(results.tasks) < results.planned else ""
    return label, results.origin, f"{ended}{counted(results.planned, 'task')}", results.written


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


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
