"""Runs tasks in a pool of processes on this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.execution import Event, Listener, TaskEnd
from trtsmith.converter.batch.run.local_machine import LocalMachine
from trtsmith.converter.batch.run.not_run import record_of
from trtsmith.converter.batch.run.pending_tasks import PendingTasks, fits
from trtsmith.converter.batch.run.task_runner import NO_GPU, WORKER, TaskRunner
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import TaskStatus


@dataclass(frozen=True)
class _Slot:
    """What one thread has for its tasks. gpu: its name; "" for none."""

    gpu: str
    environment: dict[str, str]


@dataclass(frozen=True)
class _ThreadEnd:
    """A thread has no more tasks. error: what ended it, if that is why."""

    error: BaseException | None


class LocalPool:
    """A TaskExecutor: threads that each have a process. Each GPU has a thread for its tasks; other threads do the others.

    folder: an existing one, in which everything is written.
    jobs:   tasks at a time that need no GPU; None: as many as the machine has cores for.
    worker, paths, cwd: as for TaskRunner.
    """

    def __init__(
        self,
        folder: Path,
        *,
        jobs: int | None = None,
        machine: LocalMachine | None = None,
        worker: str = WORKER,
        paths: Sequence[Path] = (),
        cwd: Path | None = None,
    ) -> None:
        self._folder = folder
        self._jobs = jobs
        self._machine = machine or LocalMachine()
        self._worker, self._paths, self._cwd = worker, paths, cwd
        self._said: SimpleQueue[Event | TaskEnd | _ThreadEnd | None] = SimpleQueue()
        self._runners: list[TaskRunner] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopped = False
        self._pending = PendingTasks((), 0.0)

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def stop(self) -> None:
        """As TaskExecutor says. A signal handler may call it: it takes no lock."""
        self._said.put(None)

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """As TaskExecutor says."""
        return self._machine.facts_for(task)

    def run(self, tasks: Sequence[BatchTask], listener: Listener) -> Iterator[TaskEnd]:
        """As TaskExecutor says. OSError where the folder cannot be used."""
        tasks = [self._machine.with_gpu(task) for task in tasks]
        slots = self._slots(tasks)
        possible = []
        for task in tasks:
            if any(fits(task.needs.gpu, slot.gpu) for slot in slots):
                possible.append(task)
            else:
                yield TaskEnd(
                    task, record_of(task, TaskStatus.INVALID, self._machine.without_gpu(task)), None
                )
        self._pending = PendingTasks(possible, max(self._machine.cores, self._jobs or 0))
        for slot in slots:
            thread = threading.Thread(target=self._work, args=(slot,), name="batch", daemon=True)
            self._threads.append(thread)
            thread.start()
        try:
            yield from self._listen(listener)
        finally:
            self._end()

    def _listen(self, listener: Listener) -> Iterator[TaskEnd]:
        error: BaseException | None = None
        ended = 0  # of the threads
        while ended < len(self._threads):
            said = self._said.get()
            if isinstance(said, Event):
                listener(said)
            elif isinstance(said, TaskEnd):
                yield said
            else:
                if isinstance(said, _ThreadEnd):
                    ended += 1
                    error = error or said.error
                if said is None or error is not None:
                    self._stop_all()
        if error is not None:
            raise error

    def _slots(self, tasks: Sequence[BatchTask]) -> list[_Slot]:
        """No more of them than there are tasks for."""
        plain = [task.needs.cpus for task in tasks if not task.needs.gpu]
        jobs = self._jobs or max(1, int(self._machine.cores / max(min(plain, default=1.0), 0.01)))
        slots = [_Slot("", dict(NO_GPU))] * min(jobs, len(plain))
        if len(plain) < len(tasks):
            gpus = self._machine.gpus
            named = os.environ.get("CUDA_VISIBLE_DEVICES") or ""
            names = named.split(",") if named else list(map(str, range(len(gpus))))
            found = [
                _Slot(gpu.name, {"CUDA_VISIBLE_DEVICES": name.strip()})
                for gpu, name in zip(gpus, names, strict=False)
            ]
            slots += [slot for slot in found if any(fits(task.needs.gpu, slot.gpu) for task in tasks)]
        return slots

    def _work(self, slot: _Slot) -> None:
        """A thread: its process lives as long as it does."""
        error: BaseException | None = None
        try:
            with TaskRunner(
                self._folder,
                gpu=slot.gpu,
                environment=slot.environment,
                worker=self._worker,
                paths=self._paths,
                cwd=self._cwd,
            ) as runner:
                with self._lock:
                    self._runners.append(runner)
                    if self._stopped:
                        runner.stop()
                while (task := self._pending.take(slot.gpu)) is not None:
                    try:
                        self._said.put(runner.run(task, self._said.put))
                    finally:
                        self._pending.done(task)
        except BaseException as caught:  # raised by `run`, in the thread of who called it
            error = caught
        finally:
            self._said.put(_ThreadEnd(error))

    def _stop_all(self) -> None:
        self._pending.stop()
        with self._lock:
            self._stopped = True
            for runner in self._runners:
                runner.stop()

    def _end(self) -> None:
        self._stop_all()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._runners.clear()
        self._stopped = False  # tasks may be given to it again
