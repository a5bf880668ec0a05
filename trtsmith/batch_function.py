"""Defines the public function `batch` and its options."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from typing_extensions import TypedDict, Unpack

from trtsmith.argument_types import checked_types
from trtsmith.arguments import logged
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.converter.base.options.kinds import Flag, Progress, StrPath, Texts, path_of, texts_of
from trtsmith.converter.base.printable import in_brief, one_line
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.batch.driver import BatchRequest, BatchResult, run_batch
from trtsmith.converter.batch.results.document import CACHE, KEPT
from trtsmith.converter.batch.store import VARIABLE, default_folder
from trtsmith.converter.batch.task import BatchTask, Event, TaskRecord, TaskStatus
from trtsmith.converter.batch.zoo.read_zoo import read_zoo
from trtsmith.converter.batch.zoo.write_zoo import write_zoo
from trtsmith.converter.verify.verdict_words import in_words
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem
from trtsmith.zoo_commands import zoo_commands

SOURCES = {KEPT: "kept", CACHE: "from the cache"}
"""Where a result comes from that was not computed now, in words."""

_MOST_LISTED = 3
"""Files of a folder that a warning names."""


class Tasks(TypedDict, total=False):
    """which tasks"""

    only: Annotated[
        Texts,
        Flag(
            "tasks whose name or model matches, such as 'resnet*' or '*/sm86'; may be repeated",
            "PATTERN",
            common=True,
        ),
        Flag(
            "show the tasks and their command lines without running them",
            "",
            "--list",
            common=True,
            action="store_true",
        ),
    ]
    retry_failed: Annotated[
        bool, Flag("also retry refused tasks; crashed and lost tasks are always retried", common=True)
    ]


class Place(TypedDict, total=False):
    """where they run"""

    jobs: Annotated[
        int | None, Flag("number of parallel tasks (default: as the cores allow)", "N", common=True)
    ]
    on: Annotated[
        str | None,
        Flag(
            "a Ray cluster (HOST:PORT), or local to start Ray on this machine; needs the extra `fleet`",
            "ADDRESS",
            common=True,
        ),
    ]


class Cache(TypedDict, total=False):
    """the cache"""

    cache: Annotated[
        StrPath | None,
        Flag(
            f"folder of the cache (default: ${VARIABLE}, else in the user's cache folder)",
            "DIR",
            alone="cache",
        ),
    ]
    no_cache: Annotated[bool, Flag("do not use the cache", alone="cache")]


class BatchOptions(Tasks, Place, Cache, total=False):
    """The options of `trtsmith batch` for a zoo."""

    progress: Progress | None


def batch_of(zoo: Path, folder: Path, given: Any) -> BatchRequest:
    only = texts_of(given.only)
    tasks, warnings = (
        _tasks_of_folder(zoo, only) if zoo.is_dir() else (read_zoo(zoo, zoo_commands(), only), ())
    )
    return request_of(tasks, folder, given, os.path.basename(os.path.abspath(zoo)), warnings)


def request_of(
    tasks: Sequence[BatchTask], folder: Path, given: Any, title: str, warnings: tuple[str, ...] = ()
) -> BatchRequest:
    """The request for tasks. given: BatchOptions."""
    return BatchRequest(
        tasks=tasks,
        warnings=warnings,
        folder=folder,
        title=title,
        only=texts_of(given.only),
        on=given.on,
        jobs=given.jobs,
        cache=None if given.no_cache else path_of(given.cache) or default_folder(os.environ, Path.home()),
        retry_failed=given.retry_failed,
    )


def _tasks_of_folder(folder: Path, only: Sequence[str]) -> tuple[tuple[BatchTask, ...], tuple[str, ...]]:
    """The tasks of the zoo that --init writes for a folder, and warnings of what it guessed and left out."""
    with ScratchFolder("zoo") as made:
        written = write_zoo(folder, Path(made, "zoo.toml"))
        zoo = f"trtsmith batch --init {quote(str(folder))} -o zoo.toml"
        left_out = f"files left out because their names are not UTF-8:{_listed(written.skipped)}"
        skipped = Problem(left_out, str(folder), "names in UTF-8, as a zoo is written in it", "rename them")
        if not written.models:
            raise UsageError([skipped])
        of = f"{len(written.shapes)} of {counted(written.models, 'model')}"
        guessed = f"the sizes of dynamic inputs are guessed for {of}:{_listed(written.shapes)}"
        correct = (
            f"{zoo} writes them as shapes.INPUT; correct them there, and convert with trtsmith batch zoo.toml"
        )
        problems = {
            Problem(guessed, str(folder), "the sizes that the models will get", correct): written.shapes,
            skipped: written.skipped,
        }
        told = tuple(str(problem) for problem, files in problems.items() if files)
        return read_zoo(written.path, zoo_commands(), only), told


def _listed(files: Sequence[str]) -> str:
    """The first ones, each on a line of its own, and how many more there are."""
    shown = [in_brief(text) for text in files[:_MOST_LISTED]]
    more = [f"... and {len(files) - len(shown)} more"] if len(files) > len(shown) else []
    return "".join(f"\n{line}" for line in [*shown, *more])


class ProgressLines:
    """A BatchListener that prints a line for each finished task, and each warning."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._total = 0
        self._ended = 0

    def planned(self, total: int) -> None:
        self._total = total

    def event(self, event: Event) -> None:
        """Ignores events of running tasks."""

    def ended(self, record: TaskRecord, source: str) -> None:
        self._ended += 1
        self._progress(ended_line(record, source, self._ended, self._total))

    def warn(self, text: str) -> None:
        """Prints a warning, in four parts."""
        self._progress(f"warning: {text}")


def ended_line(record: TaskRecord, source: str, number: int, total: int) -> str:
    """Writes a line such as [12/40] net/sm86: agree (graph only) (3.2 s)."""
    took = SOURCES.get(source) or seconds_text(record.seconds.get("total", 0.0))
    verdict = (record.report or {}).get("verdict") or {}
    basis = verdict.get("basis", ()) if record.status is TaskStatus.AGREE else ()
    return f"[{number}/{total}] {one_line(record.name)}: {in_words(record.status.value, basis)} ({took})"


def seconds_text(seconds: float) -> str:
    """Writes a duration, such as 3.2 s, 4 min 10 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


@checked_types(BatchOptions)
def batch(zoo: StrPath, output: StrPath, **options: Unpack[BatchOptions]) -> BatchResult:
    """Converts all models of a zoo into a folder, and keeps finished results there.

    zoo:          the zoo file (see docs/reference/zoo-files.md), or a folder: its models with the usual options.
    output:       the folder: one for each task, with its engine and record.json; results.json, junit.xml and index.html.
    only:         patterns; tasks whose name or model matches one.
    on:           the address of a Ray cluster; "local" to start Ray here; None: processes of this machine.
    jobs:         number of parallel tasks on this machine; None: as the cores allow.
    cache:        the folder of the cache; None: the user's.
    no_cache:     do not use the cache.
    retry_failed: also retry refused tasks.
    progress:     a function that gets a line for each finished task and each warning.

    A failed task raises nothing: see `passed`, `statuses` and `records()` of the result. Ctrl-C ends the batch in order and
    sets `signal`.

    >>> import trtsmith
    >>> done = trtsmith.batch("zoo.toml", "results", jobs=1, no_cache=True)
    >>> done.passed, dict(done.statuses)
    (True, {'model': <TaskStatus.AGREE: 'agree'>})

    Raises UsageError: the zoo, the folder or the cluster cannot be used.
    """
    given = with_defaults(BatchOptions, options)
    lines = ProgressLines(logged(given.progress))
    return run_batch(batch_of(Path(zoo), Path(output), given), lines, lines.warn)
