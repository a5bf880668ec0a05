"""Judges what changed of one task between two results: status, error, size, latency, warnings, routes.

A change is better or worse where one can say so; anything else that changed is different. Small changes of figures are none:
each rule has its threshold, with the reason beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from trtsmith.converter.batch.results.latency import judged_latency
from trtsmith.converter.batch.results.task_result import ComparedOutput, TaskResult
from trtsmith.converter.batch.task_record import TaskStatus
from trtsmith.converter.verify.tolerances import TOLERANCE

WORSE, BETTER, DIFFERENT = "worse", "better", "different"

ERROR_FACTOR = 2.0
"""From which on an error is another one. Another order of sums, as any TensorRT may choose, moves it by less."""

ERROR_FLOOR = 0.01
"""Share of the tolerance: errors below it are rounding, and no factor between two of them says anything."""

SIZE_CHANGE = 0.01
"""Share by which engines of one graph may differ in size: names, and tactics that were timed otherwise."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Change:
    """Something that changed. aspect: what; mark: WORSE, BETTER or DIFFERENT; old, new: as people read it.

    note:  what else is to be known.
    items: single things that changed, one text each, such as nodes.
    """

    aspect: str
    mark: str
    old: str
    new: str
    note: str = ""
    items: tuple[str, ...] = ()


def task_changes(old: TaskResult, new: TaskResult) -> tuple[Change, ...]:
    """All that changed, the most important first."""
    rules: tuple[Callable[[TaskResult, TaskResult], Iterator[Change]], ...] = (
        _status,
        _comparison,
        _size,
        _latency,
        _warnings,
        _routes,
        _options,
    )
    return tuple(change for rule in rules for change in rule(old, new))


_RANKED = ("disagree", "not comparable", "costs too much", "agrees in part", "agree")


def _status(old: TaskResult, new: TaskResult) -> Iterator[Change]:
    """Between passed and not passed it is better or worse, but for a task that was cancelled, of which nobody knows. A
    verdict is better that stands later in _RANKED."""
    problems = "; ".join(new.problems[:1])
    if old.status is not new.status:
        mark = DIFFERENT
        if TaskStatus.CANCELLED not in (old.status, new.status) and old.status.passed != new.status.passed:
            mark = WORSE if old.status.passed else BETTER
        yield Change("status", mark, old.status.value, new.status.value, problems)
    elif old.verdict != new.verdict:
        mark = (
            DIFFERENT
            if old.verdict not in _RANKED or new.verdict not in _RANKED
            else BETTER
            if _RANKED.index(new.verdict) > _RANKED.index(old.verdict)
            else WORSE
        )
        yield Change("verdict", mark, old.verdict or "none", new.verdict or "none")
    elif _masked(old, old.problems) != _masked(new, new.problems):
        yield Change("problems", DIFFERENT, "; ".join(old.problems[:1]), problems, items=new.problems)


def _comparison(old: TaskResult, new: TaskResult) -> Iterator[Change]:
    """Errors of outputs, where the same was compared: engines, or graphs."""
    if old.errors and new.errors and old.engine_run != new.engine_run:
        before, after = (f"the {'engine' if task.engine_run else 'graphs'}" for task in (old, new))
        yield Change("compared", DIFFERENT, before, after, "errors of the two say nothing of each other")
        return
    found: dict[str, list[tuple[float, str]]] = {WORSE: [], BETTER: []}
    for name in old.errors.keys() & new.errors.keys():
        factor = _error_factor(old.errors[name], new.errors[name])
        if factor > 1:
            found[WORSE].append((factor, name))
        elif factor < 1:
            found[BETTER].append((1 / factor if factor else math.inf, name))
    for mark, outputs in found.items():
        if outputs:
            names = [name for _, name in sorted(outputs, key=lambda one: (-one[0], one[1]))]
            first = names[0]
            before, after = (f"{first}: {_error_text(task.errors[first])}" for task in (old, new))
            yield Change("error", mark, before, after, _more(names), tuple(names))
    if old.errors and new.errors and old.errors.keys() != new.errors.keys():
        gone, came = (
            sorted(old.errors.keys() - new.errors.keys()),
            sorted(new.errors.keys() - old.errors.keys()),
        )
        yield Change(
            "outputs compared", DIFFERENT, str(len(old.errors)), str(len(new.errors)), items=(*gone, *came)
        )


def _error_factor(old: ComparedOutput, new: ComparedOutput) -> float:
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


def _error_text(error: ComparedOutput) -> str:
    relative = "infinite" if error.relative is None else f"{error.relative:.1e}"
    used = "" if error.used is None else f", {error.used:.0%} of the tolerance"
    return f"{relative}{used}{'' if error.agrees else ', disagrees'}"


def _size(old: TaskResult, new: TaskResult) -> Iterator[Change]:
    if old.bytes is None or new.bytes is None or old.bytes == new.bytes:
        return
    if abs(new.bytes - old.bytes) > SIZE_CHANGE * old.bytes:
        mark = WORSE if new.bytes > old.bytes else BETTER
        note = f"{new.bytes / old.bytes - 1:+.1%}" if old.bytes else ""
        yield Change("engine size", mark, _mib(old.bytes), _mib(new.bytes), note)


def _mib(size: int) -> str:
    return f"{size / 2**20:.4g} MiB"


def _latency(old: TaskResult, new: TaskResult) -> Iterator[Change]:
    if bool(old.runs) != bool(new.runs):
        was, is_now = ("timed" if task.runs else "not timed" for task in (old, new))
        yield Change("latency", DIFFERENT, was, is_now)
    for what in sorted(old.runs.keys() & new.runs.keys()):
        before, after = old.runs[what], new.runs[what]
        if before.gpu != after.gpu:
            note = "times of two GPUs say nothing of each other"
            yield Change("GPU", DIFFERENT, before.gpu or "unknown", after.gpu or "unknown", note)
            return
        judged = judged_latency(before, after)
        if judged:
            mark = WORSE if judged > 0 else BETTER
            note = f"{after.median / before.median - 1:+.1%}, {what}"
            yield Change("latency", mark, f"{before.median:.4g} ms", f"{after.median:.4g} ms", note)


def _warnings(old: TaskResult, new: TaskResult) -> Iterator[Change]:
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


def _routes(old: TaskResult, new: TaskResult) -> Iterator[Change]:
    if not (old.routes and new.routes):
        return
    moved = tuple(_moved(old, new))
    if moved or old.routes != new.routes:
        yield Change("routes", DIFFERENT, _counts(old.routes), _counts(new.routes), items=moved)


def _moved(old: TaskResult, new: TaskResult) -> Iterator[str]:
    """Nodes whose route changed; where reports tell no routes of nodes, layers that became plugins, or are none now."""
    if old.nodes is not None and new.nodes is not None:
        before, after = old.nodes, new.nodes
    else:
        before, after = (dict.fromkeys(task.plugin_layers, "plugin") for task in (old, new))
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name, "native or not there"), after.get(name, "native or not there")
        if one != other:
            yield f"{name}: {one} -> {other}"


def _counts(routes: Mapping[str, float]) -> str:
    return ", ".join(f"{count:g} {route}" for route, count in sorted(routes.items()))


def _options(old: TaskResult, new: TaskResult) -> Iterator[Change]:
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


def _masked(task: TaskResult, texts: Sequence[str]) -> dict[str, str]:
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
