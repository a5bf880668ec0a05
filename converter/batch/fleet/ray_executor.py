"""Runs the tasks of a batch on Ray, as a pool of processes runs them on this machine."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.execution import Listener, TaskEnd
from trtsmith.converter.batch.fleet.node_station import FleetBatch
from trtsmith.converter.batch.fleet.ray_fleet import RayFleet
from trtsmith.converter.batch.fleet.ray_run import FleetSettings, RayRun
from trtsmith.converter.batch.fleet.shipped_files import FileShelf
from trtsmith.converter.batch.run.task_runner import WORKER
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.model.errors import UsageError


class RayExecutor:
    """A TaskExecutor. Entering it raises UsageError for no Ray, no cluster, and machines that are not like this one.

    on:       "local", "auto" or HOST:PORT, see RayConnection. jobs: cores of a Ray that is started; None: all.
    folder:   an existing one, in which results are made as folders.
    hashes:   of files, where the caller has some. settings: what is done about lost machines.
    worker, paths, cwd: as for TaskRunner.
    """

    def __init__(
        self,
        on: str,
        folder: Path,
        *,
        jobs: int | None = None,
        hashes: FileHashes | None = None,
        settings: FleetSettings | None = None,
        worker: str = WORKER,
        paths: Sequence[Path] = (),
        cwd: Path | None = None,
    ) -> None:
        self._fleet = RayFleet(on, jobs)
        self._folder = folder
        self._hashes = hashes
        self._settings = settings or FleetSettings()
        self._worker, self._paths, self._cwd = worker, tuple(paths), cwd
        self._stopped = threading.Event()
        self._runs: list[Generator[TaskEnd, None, None]] = []

    def __enter__(self) -> RayExecutor:
        self._fleet.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Ends what Ray still has of it: whoever read the results may have stopped in their middle."""
        try:
            while self._runs:
                self._runs.pop().close()
        finally:
            self._fleet.__exit__(*error)

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """As TaskExecutor says."""
        return self._fleet.cluster.machine_of(task)

    def stop(self) -> None:
        """As TaskExecutor says. A signal handler may call it."""
        self._stopped.set()

    def run(self, tasks: Sequence[BatchTask], listener: Listener) -> Iterator[TaskEnd]:
        """As TaskExecutor says; UsageError, before anything runs, for tasks that no machine of the cluster can do."""
        fleet = self._fleet
        if problems := fleet.cluster.problems(tasks):
            raise UsageError(problems)
        batch = FleetBatch(
            id=secrets.token_hex(6),
            here=fleet.here,
            nodes=fleet.cluster.nodes,
            worker=self._worker,
            paths=self._paths,
            cwd=self._cwd,
        )
        shelf = FileShelf(fleet.ray, tasks, self._hashes)
        run = RayRun(
            fleet.ray, fleet.cluster, batch, shelf, self._folder, self._settings, listener, self._stopped
        ).run(tasks)
        self._runs.append(run)
        return run
