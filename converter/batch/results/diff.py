"""Compares two results of a batch: what became better, worse, or merely different, task by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.changes import BETTER, DIFFERENT, WORSE, Change, task_changes
from trtsmith.converter.batch.results.task_result import BatchResults, TaskResult

SCHEMA = 1
"""Of the JSON of a difference. diff.schema.json, beside this file, is its published schema."""

SCHEMA_FILE = Path(__file__).with_name("diff.schema.json")

_ORDER = (WORSE, BETTER, DIFFERENT)


@dataclass(frozen=True)
class TaskDiff:
    """A task that is in both and changed."""

    name: str
    changes: tuple[Change, ...]

    @property
    def mark(self) -> str:
        """Worse if anything of it is; else better if anything is; else different."""
        marks = {change.mark for change in self.changes}
        return next(mark for mark in _ORDER if mark in marks)


@dataclass(frozen=True)
class VersionChange:
    """A package whose versions changed. old, new: all that tasks had, "" for none."""

    package: str
    old: str
    new: str


@dataclass(frozen=True)
class ResultsDiff:
    """What changed from one result of a batch to another.

    changed: worse ones first, then better ones, each in the order of their names.
    added, gone: status by the name of a task that only one of them has: neither better nor worse.
    same: how many tasks are in both, and did not change.
    """

    old: BatchResults
    new: BatchResults
    versions: tuple[VersionChange, ...]
    changed: tuple[TaskDiff, ...]
    added: Mapping[str, str]
    gone: Mapping[str, str]
    same: int

    def of(self, mark: str) -> tuple[TaskDiff, ...]:
        """The tasks that are "worse", "better" or "different"."""
        return tuple(task for task in self.changed if task.mark == mark)

    def to_json(self) -> dict[str, Any]:
        """Plain data. docs/reference/batch-results.md says what is in it."""
        return {
            "schema": SCHEMA,
            "old": _side(self.old),
            "new": _side(self.new),
            "versions": [asdict(one) for one in self.versions],
            "summary": {
                **{mark: len(self.of(mark)) for mark in _ORDER},
                "new": len(self.added),
                "gone": len(self.gone),
                "same": self.same,
            },
            "tasks": [
                {
                    "name": task.name,
                    "mark": task.mark,
                    "changes": [asdict(change) | {"items": list(change.items)} for change in task.changes],
                }
                for task in self.changed
            ],
            "new_tasks": dict(self.added),
            "gone_tasks": dict(self.gone),
        }


def diff_results(old: BatchResults, new: BatchResults) -> ResultsDiff:
    """What changed from one to the other. Tasks are the same where their names are."""
    both = sorted(old.tasks.keys() & new.tasks.keys())
    diffs = [TaskDiff(name, task_changes(old.tasks[name], new.tasks[name])) for name in both]
    changed = [task for task in diffs if task.changes]
    return ResultsDiff(
        old,
        new,
        tuple(_versions(old, new)),
        tuple(sorted(changed, key=lambda task: _ORDER.index(task.mark))),
        _only(new, old),
        _only(old, new),
        len(both) - len(changed),
    )


def _only(one: BatchResults, other: BatchResults) -> dict[str, str]:
    return {name: task.status.value for name, task in sorted(one.tasks.items()) if name not in other.tasks}


def _versions(old: BatchResults, new: BatchResults) -> list[VersionChange]:
    """Of packages, TensorRT and the GPU's driver among them; none where no task of one side got so far as to tell them."""
    before, after = _all_versions(old), _all_versions(new)
    if not before or not after:
        return []
    return [
        VersionChange(name, ", ".join(sorted(before.get(name, ()))), ", ".join(sorted(after.get(name, ()))))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _all_versions(results: BatchResults) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for task in results.tasks.values():
        for name, version in (*task.versions.items(), *_driver(task)):
            found.setdefault(name, set()).add(version)
    return found


def _driver(task: TaskResult) -> list[tuple[str, str]]:
    return [("GPU driver", run.driver) for run in task.runs.values() if run.driver]


def _side(results: BatchResults) -> dict[str, Any]:
    return {
        "path": results.origin,
        "title": results.title,
        "written": results.written,
        "tasks": len(results.tasks),
        "planned": results.planned,
    }
