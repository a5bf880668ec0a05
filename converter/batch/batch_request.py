"""Puts a batch together from what a user asks for: where it runs, and which cache it has."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from trtsmith.converter.batch.batch_result import BatchResult
from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.cache.store import Store
from trtsmith.converter.batch.driver import BatchListener, BatchOptions, run_batch
from trtsmith.converter.batch.execution import TaskExecutor
from trtsmith.converter.batch.fleet.ray_address import LOCAL
from trtsmith.converter.batch.run.local_pool import LocalPool
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.option_values import check_values, is_count
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class BatchRequest:
    """What a user asks for.

    tasks:        of the zoo, all of them. only: patterns, of which a task's name or model matches one; () for all.
    folder:       where results go. title: of its pages.
    on:           the address of a Ray cluster; "local" for a Ray that is started here; None: processes of this machine.
    jobs:         tasks at a time on this machine; None: as many as it has cores for.
    cache:        its folder; None: there is none.
    retry_failed: also tasks are done again that would be refused again.
    """

    tasks: Sequence[BatchTask]
    folder: Path
    title: str = ""
    only: tuple[str, ...] = ()
    on: str | None = None
    jobs: int | None = None
    cache: Path | None = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        check_values(("--jobs", self.jobs, is_count))
        if self.on not in (None, LOCAL) and self.jobs is not None:
            raise UsageError(
                Problem(
                    "a cluster runs as many tasks as it has cores for",
                    f"--jobs {self.jobs}",
                    f"--jobs without --on, or with --on {LOCAL}",
                    "leave it out; cpus in the zoo's [needs] says what a task takes",
                )
            )
        if self.cache is not None and os.path.lexists(self.cache) and not self.cache.is_dir():
            raise UsageError(
                Problem(
                    "the cache is no folder",
                    f"--cache {self.cache}",
                    "a folder, which is made if it is not there",
                    "name another, or leave it out with --no-cache",
                )
            )
        for pattern in self.only:
            if not any(_matches(task, pattern) for task in self.tasks):
                raise UsageError(
                    Problem(
                        "no task has such a name",
                        f"--only {pattern}",
                        "the name of a task or a model, or a pattern as 'resnet*' or '*/sm86'",
                        "trtsmith batch ZOO --list shows all names",
                    )
                )

    def chosen(self) -> list[BatchTask]:
        """The tasks to do."""
        return [
            task
            for task in self.tasks
            if not self.only or any(_matches(task, pattern) for pattern in self.only)
        ]


def run_request(request: BatchRequest, listener: BatchListener, warn: Callable[[str], None]) -> BatchResult:
    """Do it. warn: gets the cache's warnings, each in four parts. UsageError as for run_batch."""
    chosen = request.chosen()
    names = {task.name for task in chosen}
    hashes = FileHashes()
    return run_batch(
        chosen,
        BatchOptions(
            folder=request.folder,
            executor=lambda scratch: _executor(request, scratch, hashes),
            store=None if request.cache is None else Store(request.cache, warn),
            retry_failed=request.retry_failed,
            others=[task for task in request.tasks if task.name not in names],
            title=request.title,
            hashes=hashes,
        ),
        listener,
    )


def _executor(request: BatchRequest, scratch: Path, hashes: FileHashes) -> TaskExecutor:
    if request.on is None:
        return LocalPool(scratch, jobs=request.jobs, cwd=Path.cwd())
    # Only who asks for a Ray has it imported.
    from trtsmith.converter.batch.fleet.ray_executor import RayExecutor

    return RayExecutor(request.on, scratch, jobs=request.jobs, hashes=hashes, cwd=Path.cwd())


def _matches(task: BatchTask, pattern: str) -> bool:
    return fnmatchcase(task.name, pattern) or fnmatchcase(task.model, pattern)
