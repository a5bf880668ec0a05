"""Holds what differences between two results are made of: the facts of each task, as results.json has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trtsmith.converter.batch.task_record import TaskStatus


@dataclass(frozen=True)
class ComparedOutput:
    """How one output compares. relative: ratio of norms, None where infinite. used: share of the tolerance, if known."""

    agrees: bool
    dtype: str
    relative: float | None
    used: float | None


@dataclass(frozen=True)
class TimedRun:
    """Milliseconds of an inference: the median, and what nine of ten stay below. gpu, driver: where it was timed."""

    median: float
    p90: float
    gpu: str
    driver: str


@dataclass(frozen=True)
class TaskResult:
    """One task of results.json.

    verdict:    "agree", "disagree" or "not comparable"; "" where nothing was compared.
    engine_run: whether the engine itself was compared, or only the graphs from which it is built.
    errors:     by output, and by the set of inputs where there are several.
    bytes:      of the engine; None where there is none.
    nodes:      route by node, of those that are not native; None where it is not told.
    runs:       by what was timed, in words.
    problems:   the first part of each.
    """

    name: str
    status: TaskStatus
    verdict: str = ""
    engine_run: bool = False
    errors: Mapping[str, ComparedOutput] = field(default_factory=dict)
    bytes: int | None = None
    routes: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, str] | None = None
    plugin_layers: tuple[str, ...] = ()
    runs: Mapping[str, TimedRun] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchResults:
    """A results.json. tasks: by name. origin: the path that was read; title: the zoo's; planned: tasks that there are, of
    which some may not have ended."""

    origin: str
    title: str
    written: str
    planned: int
    tasks: Mapping[str, TaskResult]
