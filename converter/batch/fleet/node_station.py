"""Keeps what a Ray worker process has for tasks from one to the next: a process that converts, and the files that came."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.execution import Event, TaskEnd
from trtsmith.converter.batch.fleet.leased_folder import LeasedFolder
from trtsmith.converter.batch.fleet.node_facts import NodeFacts
from trtsmith.converter.batch.fleet.node_files import NodeFiles
from trtsmith.converter.batch.run.task_runner import NO_GPU, WORKER, TaskRunner
from trtsmith.converter.batch.task import BatchTask

IDLE_S = 30.0
"""After which a process that converts is ended: Ray keeps its own as long as the driver has a use for the cluster."""


EVENT_S = 0.25
"""Between two events that go to the driver: a build says more than anybody reads, and each is an object of Ray."""

WAKE_S = 0.2
"""Between two moments at which Ray can interrupt a task that waits."""


@dataclass(frozen=True)
class FleetBatch:
    """What is the same for all tasks of a batch on a cluster.

    id: unique. here: the driver's machine. nodes: those that were compared with it before the first task.
    worker, paths, cwd: as for TaskRunner; folders that a machine lacks are left out there.
    """

    id: str
    here: MachineFacts
    nodes: Sequence[NodeFacts]
    worker: str = WORKER
    paths: Sequence[Path] = ()
    cwd: Path | None = None


@dataclass
class _StationCall:
    task: BatchTask
    said: queue.SimpleQueue[Event | TaskEnd | BaseException] = field(default_factory=queue.SimpleQueue)


class NodeStation:
    """One process that converts, in a thread which lives as long: Linux ends a process with the thread that started it.

    node: Ray's name of this machine. gpu: the name of the GPU that tasks are given; "" for none.
    """

    def __init__(self, batch: FleetBatch, node: str, gpu: str) -> None:
        self.serves = (batch.id, gpu, _visible_gpus(gpu))
        self.lock = threading.Lock()
        self.busy = False
        self.closed = False
        self._folder = LeasedFolder("trtsmith-batch-", f"{batch.id}-{node[:12]}")
        self.files = NodeFiles(self._folder.path)
        self._batch = batch
        self._gpu = gpu
        self._calls: queue.SimpleQueue[_StationCall | None] = queue.SimpleQueue()
        self._runner: TaskRunner | None = None
        self._thread = threading.Thread(target=self._serve, name="trtsmith batch", daemon=True)
        self._thread.start()

    def run(self, task: BatchTask) -> Iterator[Event | TaskEnd]:
        """Events while the task runs, and how it ended."""
        call = _StationCall(task)
        self._calls.put(call)
        held: Event | None = None  # until it is time for the next one
        told = 0.0
        while True:
            try:
                said: Event | TaskEnd | BaseException = call.said.get(timeout=WAKE_S)
            except queue.Empty:
                if held is None:
                    continue
                said = held
            if isinstance(said, BaseException):
                raise said
            if isinstance(said, Event) and time.monotonic() < told + EVENT_S:
                held = said
                continue
            held, told = None, time.monotonic()
            yield said
            if isinstance(said, TaskEnd):
                return

    def stop(self) -> None:
        """End the task that runs, with every process of it, and the station."""
        self.closed = True
        self._calls.put(None)
        while self._thread.is_alive():
            if self._runner is not None:
                self._runner.stop()
            self._thread.join(WAKE_S)

    def close(self) -> None:
        """End the process, and wait for it."""
        self._calls.put(None)
        self._thread.join()

    def _serve(self) -> None:
        environment = {"CUDA_VISIBLE_DEVICES": _visible_gpus(self._gpu)} if self._gpu else NO_GPU
        batch = self._batch
        cwd = batch.cwd if batch.cwd is not None and batch.cwd.is_dir() else None
        try:
            with TaskRunner(
                self._folder.path,
                gpu=self._gpu,
                environment=environment,
                worker=batch.worker,
                paths=[path for path in batch.paths if path.is_dir()],
                cwd=cwd,
            ) as runner:
                self._runner = runner
                while not self.closed:
                    self._serve_one(runner)
        finally:
            self.closed = True
            self._folder.release()

    def _serve_one(self, runner: TaskRunner) -> None:
        try:
            call = self._calls.get(timeout=IDLE_S)
        except queue.Empty:
            with self.lock:
                self.closed = self.closed or not self.busy
            return
        if call is None:
            self.closed = True
            return
        try:
            call.said.put(runner.run(call.task, call.said.put))
        except BaseException as error:  # raised by `run`, in the thread of who called it
            call.said.put(error)


class _OfProcess:
    """The station of this process. A worker process of Ray runs one task at a time."""

    station: NodeStation | None = None


def station_for(batch: FleetBatch, node: str, gpu: str) -> NodeStation:
    """The one that the last task had, where that suits; marked as busy, which who asked takes back."""
    station = _OfProcess.station
    if station is not None:
        with station.lock:
            if not station.closed and station.serves == (batch.id, gpu, _visible_gpus(gpu)):
                station.busy = True
                return station
        station.close()
    _OfProcess.station = station = NodeStation(batch, node, gpu)
    station.busy = True
    return station


def _visible_gpus(gpu: str) -> str:
    """What Ray gave to this task: it may be another one for the next."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0") if gpu else ""
