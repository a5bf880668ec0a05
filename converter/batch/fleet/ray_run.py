"""Hands tasks to Ray, a bounded number at a time, and takes in what comes of them.

Where a task runs is Ray's decision; this holds what waits, as plain data, so that the driver's memory does not grow with
the number of tasks. A task whose worker or machine is lost is handed to Ray again from here, and not by Ray's own
max_retries: its items come while it runs, and those of two attempts must not be mixed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.execution import Event, Listener, TaskEnd
from trtsmith.converter.batch.fleet.node_station import FleetBatch
from trtsmith.converter.batch.fleet.node_task import (
    Began,
    FilePart,
    FilesLacking,
    MachineUnfit,
    NoRoom,
    TaskOrder,
    run_on_node,
)
from trtsmith.converter.batch.fleet.ray_cancel import cancel_all
from trtsmith.converter.batch.fleet.result_intake import DamagedResult, ResultIntake
from trtsmith.converter.batch.fleet.shipped_files import FileShelf
from trtsmith.converter.batch.fleet.task_ends import (
    cancelled_end,
    lost_end,
    mistake_end,
    stranded_end,
    without_files,
)
from trtsmith.converter.batch.fleet.task_resources import Cluster, TaskResources
from trtsmith.converter.batch.fleet.waiting_tasks import WaitingTask, WaitingTasks
from trtsmith.converter.batch.task import BatchTask

POLL_S = 0.3
"""How long a wait for Ray lasts at most: the time in which a stop is seen."""

READY_S = 2.0
"""For what has come already when a stop is seen: tasks that run may go on to say more."""


@dataclass(frozen=True)
class FleetSettings:
    """retries: how often a task is begun again whose worker or machine was lost. patience_s: how long a task waits for a
    machine that can run it after the last of them has gone."""

    retries: int = 2
    patience_s: float = 60.0


@dataclass
class _Running:
    """A task that Ray has. attempts: this one included. began: what its machine said, None before."""

    task: BatchTask
    resources: TaskResources
    intake: ResultIntake
    order: TaskOrder
    attempts: int = 1
    began: Began | None = None


class RayRun:
    """One run of tasks. folder: an existing one, in which results are made."""

    def __init__(
        self,
        ray: Any,
        cluster: Cluster,
        batch: FleetBatch,
        shelf: FileShelf,
        folder: Path,
        settings: FleetSettings,
        listener: Listener,
        stopped: threading.Event,
    ) -> None:
        self._ray, self._cluster, self._shelf = ray, cluster, shelf
        self._folder, self._settings, self._listener, self._stopped = folder, settings, listener, stopped
        self._batch = ray.put(batch)
        self._function = ray.remote(run_on_node)
        self._waiting = WaitingTasks(ray, [facts.node for facts in cluster.nodes])
        self._running: dict[Any, _Running] = {}

    def run(self, tasks: Sequence[BatchTask]) -> Generator[TaskEnd, None, None]:
        """Each task once, as it ends."""
        for task in tasks:
            self._waiting.add(WaitingTask(task, self._cluster.resources(task)))
        try:
            yield from self._hand_out()
            while self._running and not self._stopped.is_set():
                ready, _ = self._ray.wait(
                    list(self._running), num_returns=1, timeout=POLL_S, fetch_local=False
                )
                for generator in ready:
                    yield from self._advance(generator)
                yield from self._without_machine()
                yield from self._hand_out()
            if self._stopped.is_set():
                yield from self._take_ready()
                yield from self._cancelled()
        finally:
            self._cancel()

    def _hand_out(self) -> Iterator[TaskEnd]:
        """Give Ray as many as it may have. Those whose files cannot be read have ended."""
        while not self._stopped.is_set():
            waiting = self._waiting.take(running.resources for running in self._running.values())
            if waiting is None:
                return
            try:
                contents = self._shelf.contents(waiting.task)
            except OSError as error:
                yield self._done(without_files(waiting.task, error, waiting.attempts + 1))
                continue
            parts = self._shelf.parts(contents)
            gpu = waiting.resources.gpu
            title = "" if gpu is None else gpu.title or gpu.accelerator or "GPU"
            self._start(waiting, TaskOrder(waiting.task, contents, parts, title))

    def _start(self, waiting: WaitingTask, order: TaskOrder) -> None:
        options = waiting.resources.options()
        if unfit := ",".join(sorted(self._waiting.unfit)):
            options["label_selector"] = {"ray.io/node-id": f"!in({unfit})"}
        generator = self._function.options(
            num_returns="streaming", max_retries=0, name="trtsmith batch", **options
        ).remote(order, self._batch)
        intake = ResultIntake(waiting.task, self._folder)
        self._running[generator] = _Running(
            waiting.task, waiting.resources, intake, order, waiting.attempts + 1
        )

    def _advance(self, generator: Any) -> Iterator[TaskEnd]:
        """Take the next item of a task; its end, if that is it."""
        running = self._running.pop(generator)
        try:
            item = self._ray.get(next(generator))
        except StopIteration:
            yield from self._finish(running)
            return
        except self._ray.exceptions.RayError as error:
            yield from self._failed(running, error)
            return
        self._running[generator] = running  # at the end: the others come first
        if isinstance(item, Event):
            self._listener(item)
            return
        try:
            over = self._take(running, item)
        except (OSError, DamagedResult) as error:
            del self._running[generator]
            self._ray.cancel(generator)
            yield from self._unusable(running, error)
            return
        if over:
            del self._running[generator]
            if isinstance(over, TaskEnd):
                yield self._done(over)

    def _take(self, running: _Running, item: Any) -> TaskEnd | bool:
        """Whether nothing more comes of this attempt; what came of the task, if that is known then."""
        if isinstance(item, Began):
            running.began = item
        elif isinstance(item, FilePart):
            running.intake.take_part(item)
        elif isinstance(item, FilesLacking):
            self._shelf.put(running.order.files, item.sha256s)
            self._again(running, running.attempts - 1)
            return True
        elif isinstance(item, MachineUnfit):
            self._leave_out(item)
            self._again(running, running.attempts - 1)
            return True
        elif isinstance(item, NoRoom):
            running.intake.discard()
            return mistake_end(running.task, item.problem, running.attempts)
        else:
            running.intake.take_record(item)
        return False

    def _leave_out(self, item: MachineUnfit) -> None:
        if item.node not in self._waiting.unfit:
            self._waiting.unfit.add(item.node)
            for problem in item.problems:
                text = f"the machine {problem.where} came later and is left out: {problem.what}"
                self._listener(Event("", text, place=problem.where))

    def _again(self, running: _Running, attempts: int) -> None:
        running.intake.discard()
        self._waiting.add_again(WaitingTask(running.task, running.resources, attempts))

    def _finish(self, running: _Running) -> Iterator[TaskEnd]:
        try:
            yield self._done(running.intake.ended(running.attempts))
        except (OSError, DamagedResult) as error:
            yield from self._unusable(running, error)

    def _unusable(self, running: _Running, error: Exception) -> Iterator[TaskEnd]:
        """A result that cannot be written here, or that came damaged."""
        running.intake.discard()
        if isinstance(error, OSError):
            yield self._done(without_files(running.task, error, running.attempts))
        else:
            yield from self._lost(running, error)

    def _failed(self, running: _Running, error: Exception) -> Iterator[TaskEnd]:
        """Ray says that the task failed: the machine, or our own code on it."""
        exceptions = self._ray.exceptions
        running.intake.discard()
        cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
        if isinstance(cause, exceptions.RayError) or isinstance(error, exceptions.ObjectLostError):
            yield from self._lost(running, cause)
        else:
            yield self._done(mistake_end(running.task, cause, running.attempts))

    def _lost(self, running: _Running, error: BaseException) -> Iterator[TaskEnd]:
        """Its worker or machine is gone: begin it again, if it has not been often enough."""
        if running.attempts <= self._settings.retries:
            place = "" if running.began is None else running.began.host
            self._listener(Event(running.task.name, f"begun again: {type(error).__name__}", place=place))
            self._again(running, running.attempts)
            return
        out_of_memory = isinstance(error, self._ray.exceptions.OutOfMemoryError)
        yield self._done(lost_end(running.task, error, running.began, running.attempts, out_of_memory))

    def _without_machine(self) -> Iterator[TaskEnd]:
        """Tasks that no machine can run any more: those that Ray has, and those that wait here."""
        held = [(generator, running.resources) for generator, running in self._running.items()]
        hopeless = list(self._waiting.hopeless(held, self._settings.patience_s))
        for generator in hopeless:
            running = self._running.pop(generator)
            self._ray.cancel(generator)
            running.intake.discard()
            yield self._done(stranded_end(running.task, running.attempts))
        for waiting in self._waiting.drop_hopeless() if hopeless else ():
            yield self._done(stranded_end(waiting.task, max(waiting.attempts, 1)))

    def _done(self, ended: TaskEnd) -> TaskEnd:
        self._shelf.done(ended.task)
        return ended

    def _take_ready(self) -> Iterator[TaskEnd]:
        """What has come before the stop was seen."""
        until = time.monotonic() + READY_S
        while self._running and time.monotonic() < until:
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=0, fetch_local=False)
            if not ready:
                return
            yield from self._advance(ready[0])

    def _cancelled(self) -> Iterator[TaskEnd]:
        """Those that ran when they were stopped."""
        begun = [running for running in self._running.values() if running.began is not None]
        self._cancel()
        for running in begun:
            assert running.began is not None
            yield self._done(cancelled_end(running.task, running.began, running.attempts))

    def _cancel(self) -> None:
        """End what Ray has of this run."""
        generators = list(self._running)
        for generator in generators:
            self._running.pop(generator).intake.discard()
        cancel_all(self._ray, generators)
