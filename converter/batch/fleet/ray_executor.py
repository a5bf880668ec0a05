"""Runs the tasks of a batch on Ray: on a cluster, or on a Ray that is started on this machine for it."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.cache.machine_facts import MachineFacts, this_machine
from trtsmith.converter.batch.execution import Ended, Listener
from trtsmith.converter.batch.fleet.node_comparison import machine_problems
from trtsmith.converter.batch.fleet.node_facts import alive_nodes, ask_nodes
from trtsmith.converter.batch.fleet.node_station import FleetBatch
from trtsmith.converter.batch.fleet.ray_connection import RayConnection
from trtsmith.converter.batch.fleet.ray_run import FleetSettings, RayRun
from trtsmith.converter.batch.fleet.shipped_files import FileShelf
from trtsmith.converter.batch.fleet.task_resources import Cluster
from trtsmith.converter.batch.run.task_runner import WORKER
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem


class RayExecutor:
    """An Executor, on Ray. Entering it connects, and asks every machine what is installed there: UsageError for no Ray, no
    cluster, and machines that are not like this one, all of them at once.

    on:       "local", "auto" or HOST:PORT, see RayConnection.
    folder:   an existing one, in which results are made as folders.
    jobs:     cores of a Ray that is started; None: all.
    hashes:   of files, where the caller has some.
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
        self._connection = RayConnection(on, jobs)
        self._folder = folder
        self._hashes = hashes
        self._settings = settings or FleetSettings()
        self._worker, self._paths, self._cwd = worker, tuple(paths), cwd
        self._cluster: Cluster | None = None
        self._here = MachineFacts({}, {}, "")
        self._stopped = threading.Event()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> RayExecutor:
        with contextlib.ExitStack() as stack:
            ray = stack.enter_context(self._connection).ray
            self._here = replace(this_machine(), gpu=None)
            nodes = ask_nodes(ray, alive_nodes(ray))
            problems = machine_problems(self._here, nodes)
            if not nodes:
                problems = [self._no_machines()]
            if problems:
                raise UsageError(problems)
            self._cluster = Cluster(nodes)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster = None
        self._stack.close()

    def stop(self) -> None:
        """As Executor says. A signal handler may call it."""
        self._stopped.set()

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """What the result of a task depends on that no file says, for `Keys`; None for a task that no machine can do."""
        assert self._cluster is not None
        return self._cluster.machine_of(task)

    def run(self, tasks: Sequence[BatchTask], listener: Listener) -> Iterator[Ended]:
        """As Executor says; UsageError, before anything runs, for tasks that no machine of the cluster can do."""
        assert self._cluster is not None, "it is used in a with statement"
        if problems := self._cluster.problems(tasks):
            raise UsageError(problems)
        ray = self._connection.ray
        batch = FleetBatch(
            id=secrets.token_hex(6),
            here=self._here,
            nodes=self._cluster.nodes,
            worker=self._worker,
            paths=self._paths,
            cwd=self._cwd,
        )
        shelf = FileShelf(ray, tasks, self._hashes)
        run = RayRun(ray, self._cluster, batch, shelf, self._folder, self._settings, listener, self._stopped)
        yield from run.run(tasks)

    def _no_machines(self) -> Problem:
        return Problem(
            "the cluster has no machine that runs tasks",
            f"--on {self._connection.on}",
            "at least one node with cores",
            "ray start --address=HOST:PORT on a machine that is to do the work",
        )
