"""Compares the results of two batches, task by task: better, worse, or only different.

A change is better or worse where one can say so; anything else that changed is different. Small changes of figures are none:
each rule has its threshold, with the reason beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trtsmith.converter.batch.results.document import BatchResults, OutputRow, RunRow, TaskRow
from trtsmith.converter.batch.task import TaskStatus
from trtsmith.converter.batch.zoo.zoo_matrix import DEFAULT
from trtsmith.converter.verify.tolerances import TOLERANCE
from trtsmith.converter.verify.verdict_words import in_words

SCHEMA = 1
"""Of the JSON of a difference. diff.schema.json, beside this file, is its published schema."""

SCHEMA_FILE = Path(__file__).with_name("diff.schema.json")

WORSE, BETTER, DIFFERENT = MARKS = ("worse", "better", "different")

ERROR_FACTOR = 2.0
"""From which on an error is another one. Another order of sums, as any TensorRT may choose, moves it by less."""

ERROR_FLOOR = 0.01
"""Share of the tolerance: errors below it are rounding, and no factor between two of them says anything."""

SIZE_CHANGE = 0.01
"""Share by which engines of one graph may differ in size: names, and tactics that were timed otherwise."""

LATENCY_CHANGE = 0.03
"""Between two runs of unchanged kernels, on one H200 hours apart, 17 of 18 medians were beyond the other's 90th
percentile, and the farthest were 2.1 % apart (benchmarks/h200/bench.json and bench_earlier.json, their baselines)."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Change:
    """One change. aspect: its subject; mark: WORSE, BETTER or DIFFERENT; old, new: as people read it.

    note:  what else is to be known.
    items: single things that changed, one text each, such as nodes.
    """

    aspect: str
    mark: str
    old: str
    new: str
    note: str = ""
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskDiff:
    """A task of both results that changed."""

    name: str
    changes: tuple[Change, ...]

    @property
    def mark(self) -> str:
        """WORSE if any change is worse, else BETTER if any is better, else DIFFERENT."""
        marks = {change.mark for change in self.changes}
        return next(mark for mark in MARKS if mark in marks)


@dataclass(frozen=True)
class VersionChange:
    """A package whose version changed. old, new: all versions in use, "" for none."""

    package: str
    old: str
    new: str


@dataclass(frozen=True)
class ResultsDiff:
    """The changes between two results of a batch.

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
        """Returns the tasks that are "worse", "better" or "different"."""
        return tuple(task for task in self.changed if task.mark == mark)

    def to_json(self) -> dict[str, Any]:
        """Returns plain data. docs/reference/batch-results.md defines it."""
        return {
            "schema": SCHEMA,
            "old": _side(self.old),
            "new": _side(self.new),
            "versions": [asdict(one) for one in self.versions],
            "summary": {
                **{mark: len(self.of(mark)) for mark in MARKS},
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
    """Compares two results. Tasks are matched by name; without a matrix, with the variant that is the default."""
    before, after = _by_name(old, new), _by_name(new, old)
    both = sorted(before.keys() & after.keys())
    diffs = [TaskDiff(name, task_changes(before[name], after[name])) for name in both]
    changed = [task for task in diffs if task.changes]
    return ResultsDiff(
        old,
        new,
        tuple(_versions(old, new)),
        tuple(sorted(changed, key=lambda task: MARKS.index(task.mark))),
        _only(after, before),
        _only(before, after),
        len(both) - len(changed),
    )


def _by_name(one: BatchResults, other: BatchResults) -> dict[str, TaskRow]:
    """The tasks of one; a model without variants has the name of the other's only variant that says nothing: net/default."""
    defaults: dict[str, list[str]] = {}
    for task in other.tasks:
        if set(task.variant.values()) == {DEFAULT}:
            defaults.setdefault(task.model, []).append(task.name)
    names = {model: found[0] for model, found in defaults.items() if len(found) == 1}
    return {task.name if task.variant else names.get(task.name, task.name): task for task in one.tasks}


def _only(one: Mapping[str, TaskRow], other: Mapping[str, TaskRow]) -> dict[str, str]:
    return {name: task.status.value for name, task in sorted(one.items()) if name not in other}


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
    for task in results.tasks:
        driver = task.bench.driver if task.bench is not None and task.bench.runs else ""
        for name, version in (*task.versions.items(), *([("GPU driver", driver)] if driver else [])):
            found.setdefault(name, set()).add(version)
    return found


def _side(results: BatchResults) -> dict[str, Any]:
    return {
        "path": results.origin,
        "title": results.title,
        "written": results.written,
        "tasks": len(results.tasks),
        "planned": results.planned,
    }


def task_changes(old: TaskRow, new: TaskRow) -> tuple[Change, ...]:
    """Lists all changes, the most important first."""
    rules = (_status, _comparison, _size, _latency, _warnings, _routes, _options)
    return tuple(change for rule in rules for change in rule(old, new))


_RANKED = ("disagree", "not comparable", "costs too much", "agrees in part", "agree")


def _status(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    """Better or worse between passed and not passed, except for a cancelled task, whose outcome is unknown. A
    verdict is better that stands later in _RANKED."""
    before, after = (task.verdict.status if task.verdict else "" for task in (old, new))
    problems, said = ([problem.what for problem in task.problems] for task in (old, new))
    if old.status is not new.status:
        mark = DIFFERENT
        if TaskStatus.CANCELLED not in (old.status, new.status) and old.passed != new.passed:
            mark = WORSE if old.passed else BETTER
        yield Change("status", mark, old.status.value, new.status.value, "; ".join(said[:1]))
    elif before != after:
        mark = DIFFERENT
        if before in _RANKED and after in _RANKED:
            mark = BETTER if _RANKED.index(after) > _RANKED.index(before) else WORSE
        was, now = (
            in_words(one.verdict.status, one.verdict.basis) if one.verdict else "none" for one in (old, new)
        )
        yield Change("verdict", mark, was, now)
    elif _masked(old, problems) != _masked(new, said):
        yield Change("problems", DIFFERENT, "; ".join(problems[:1]), "; ".join(said[:1]), items=tuple(said))


def _comparison(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    """Errors of outputs, where the same was compared: engines, or graphs."""
    if not (old.verdict and new.verdict and old.verdict.outputs and new.verdict.outputs):
        return
    if old.verdict.engine_run != new.verdict.engine_run:
        before, after = (
            "the engine" if one.engine_run else "the graphs" for one in (old.verdict, new.verdict)
        )
        yield Change("compared", DIFFERENT, before, after, "errors of the two say nothing of each other")
        return
    olds, news = ({one.name: one for one in verdict.outputs} for verdict in (old.verdict, new.verdict))
    found: dict[str, list[tuple[float, str]]] = {WORSE: [], BETTER: []}
    for name in olds.keys() & news.keys():
        factor = _error_factor(olds[name], news[name])
        if factor > 1:
            found[WORSE].append((-factor, name))
        elif factor < 1:
            found[BETTER].append((-1 / factor if factor else -math.inf, name))
    for mark, outputs in found.items():
        if names := [name for _, name in sorted(outputs)]:
            before, after = (f"{names[0]}: {_error_text(by_name[names[0]])}" for by_name in (olds, news))
            yield Change("error", mark, before, after, _more(names), tuple(names))
    if olds.keys() != news.keys():
        items = (*sorted(olds.keys() - news.keys()), *sorted(news.keys() - olds.keys()))
        yield Change("outputs compared", DIFFERENT, str(len(olds)), str(len(news)), items=items)


def _error_factor(old: OutputRow, new: OutputRow) -> float:
    """By which an error grew: 1 for no change that says anything."""
    if old.agrees != new.agrees:
        return math.inf if old.agrees else 0.0
    if old.used is not None and new.used is not None:
        before, after, floor = old.used, new.used, ERROR_FLOOR
    elif old.relative is not None and new.relative is not None:
        before, after, floor = old.relative, new.relative, ERROR_FLOOR * TOLERANCE.get(new.dtype, 1e-4)
    else:
        return 1.0
    factor = max(after, floor) / max(before, floor)
    return factor if not 1 / ERROR_FACTOR <= factor <= ERROR_FACTOR else 1.0


def _error_text(error: OutputRow) -> str:
    relative = "infinite" if error.relative is None else f"{error.relative:.1e}"
    used = "" if error.used is None else f", {error.used:.0%} of the tolerance"
    return f"{relative}{used}{'' if error.agrees else ', disagrees'}"


def _size(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    if old.engine is None or new.engine is None:
        return
    before, after = old.engine.bytes, new.engine.bytes
    if abs(after - before) > SIZE_CHANGE * before:
        note = f"{after / before - 1:+.1%}" if before else ""
        yield Change("engine size", WORSE if after > before else BETTER, _mib(before), _mib(after), note)


def _mib(size: int) -> str:
    return f"{size / 2**20:.4g} MiB"


def _latency(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    olds, news = ({run.what: run for run in task.bench.runs} if task.bench else {} for task in (old, new))
    if bool(olds) != bool(news):
        was, is_now = ("timed" if runs else "not timed" for runs in (olds, news))
        yield Change("latency", DIFFERENT, was, is_now)
    if old.bench and new.bench and olds.keys() & news.keys() and old.bench.gpu != new.bench.gpu:
        note = "times of two GPUs say nothing of each other"
        yield Change("GPU", DIFFERENT, old.bench.gpu or "unknown", new.bench.gpu or "unknown", note)
        return
    for what in sorted(olds.keys() & news.keys()):
        before, after = olds[what], news[what]
        if (slower := _slower(before, after)) or _slower(after, before):
            one, other = before.latency_ms["median"], after.latency_ms["median"]
            mark = WORSE if slower else BETTER
            yield Change(
                "latency", mark, f"{one:.4g} ms", f"{other:.4g} ms", f"{other / one - 1:+.1%}, {what}"
            )


def _slower(one: RunRow, other: RunRow) -> bool:
    """Whether the other median is more than noise above this one's.

    Inferences of one run are no independent samples: clocks, temperature and the place of buffers shift all of them
    together, so that a confidence interval of the median, made of one run, is far too narrow (Kalibera and Jones, "Rigorous
    Benchmarking in Reasonable Time", ISMM 2013: repeat at the level that varies most, which is that of runs;
    here each side has one). So no test of significance is made up of what one run cannot know. Two things have to
    hold instead:

    - the new median is beyond what nine of ten inferences of the other run stayed below (its 90th percentile): the change is
      more than what one sees within a run; and
    - the medians differ by more than LATENCY_CHANGE: it is more than what one sees between runs.

    The rule is symmetric: what is slower from old to new is faster from new to old.
    """
    before, after = one.latency_ms, other.latency_ms
    return after["median"] > before["p90"] and after["median"] > before["median"] * (1 + LATENCY_CHANGE)


def _warnings(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    """Warnings are the same where they differ in numbers and folders only."""
    before, after = _masked(old, old.warnings), _masked(new, new.warnings)
    came = tuple(text for key, text in after.items() if key not in before)
    gone = tuple(text for key, text in before.items() if key not in after)
    if came:
        yield Change("warnings", WORSE, "", came[0], _more(came), came)
    if gone:
        yield Change("warnings", BETTER, gone[0], "", _more(gone), gone)


def _more(texts: Sequence[str]) -> str:
    return f"and {len(texts) - 1} more" if len(texts) > 1 else ""


def _routes(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    if not (old.routes and new.routes):
        return
    moved = tuple(_moved(old, new))
    if moved or old.routes != new.routes:
        yield Change("routes", DIFFERENT, _counts(old.routes), _counts(new.routes), items=moved)


def _moved(old: TaskRow, new: TaskRow) -> Iterator[str]:
    """Nodes whose route changed; where reports tell no routes of nodes, layers that became plugins, or are none now."""
    if old.nodes is not None and new.nodes is not None:
        before, after = old.nodes, new.nodes
    else:
        layers = (task.engine.plugin_layers if task.engine else () for task in (old, new))
        before, after = (dict.fromkeys(names, "plugin") for names in layers)
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name, "native or not there"), after.get(name, "native or not there")
        if one != other:
            yield f"{name}: {one} -> {other}"


def _counts(routes: Mapping[str, float]) -> str:
    return ", ".join(f"{count:g} {route}" for route, count in sorted(routes.items()))


def _options(old: TaskRow, new: TaskRow) -> Iterator[Change]:
    """The command line, without the folders of files."""
    if not (old.command and new.command):
        return
    before, after = (_without_folders(task.command) for task in (old, new))
    if before != after:
        gone = " ".join(word for word in before if word not in after)
        came = " ".join(word for word in after if word not in before)
        yield Change("options", DIFFERENT, gone, came)


def _without_folders(words: Sequence[str]) -> list[str]:
    return [PurePosixPath(word).name if word.startswith("/") else word for word in words]


def _masked(task: TaskRow, texts: Sequence[str]) -> dict[str, str]:
    """Texts by what is the same of them in another run: no numbers, and no folders of the command line's files."""
    folders = {f"{PurePosixPath(word).parent}/" for word in task.command if word.startswith("/")} - {
        "/",
        "//",
    }
    found = {}
    for text in texts:
        key = text
        for folder in sorted(folders, key=len, reverse=True):
            key = key.replace(folder, "")
        found[_NUMBER.sub("#", key)] = text
    return found
