"""Runs tasks on this machine: threads that each have a supervised child process. No port is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from trtsmith.converter.batch.child import ChildSetup, TaskRunner
from trtsmith.converter.batch.command_words import ANY, GpuDemand, gpu_demand
from trtsmith.converter.batch.machine import MachineFacts, this_machine
from trtsmith.converter.batch.task import (
    BatchTask,
    Event,
    EventListener,
    TaskEnd,
    TaskStatus,
    cancelled,
    record_of,
)
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpus
from trtsmith.importers.problem import Problem


class LocalExecutor:
    """A TaskExecutor on this machine. A task for a GPU has one to itself; other tasks share the cores.

    folder:  an existing one, in which everything is written.
    jobs:    tasks at a time that need no GPU; None: as many as the machine has cores for.
    machine: what results depend on; gpus: in the order of the driver. None: this machine's.
    """

    def __init__(
        self,
        folder: Path,
        setup: ChildSetup,
        *,
        jobs: int | None = None,
        machine: MachineFacts | None = None,
        gpus: Sequence[Gpu] | None = None,
    ) -> None:
        self._folder, self._setup, self._jobs = folder, setup, jobs
        self._machine = machine or this_machine()
        self._gpus = find_gpus() if gpus is None else gpus
        self._cores = float(len(os.sched_getaffinity(0)))
        self._said: SimpleQueue[Event | Future[TaskEnd] | None] = SimpleQueue()
        self._stack = ExitStack()
        self._stopped = False
        self._runners: list[TaskRunner] = []
        self._idle: dict[int | None, list[TaskRunner]] = {}  # by the GPU's number

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def stop(self) -> None:
        """Stops the batch, as TaskExecutor requires. A signal handler may call it: it takes no lock."""
        self._said.put(None)

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """Returns the machine of a task. The kind of GPU is always the same, since results differ between kinds."""
        demand, gpu = self._gpu_for(task)
        return replace(self._machine, gpu=gpu) if gpu is not None or demand is None else None

    def _gpu_for(self, task: BatchTask) -> tuple[GpuDemand | None, Gpu | None]:
        """The GPU that the task needs; the first that fits, of those for which it builds if there is one."""
        demand = gpu_demand(task, self._machine.flavours)
        if demand is None:
            return None, None
        fitting = [gpu for gpu in self._gpus if _fits(demand.name, gpu.name)]
        built_for = [gpu for gpu in fitting if gpu.target in demand.targets]
        return demand, next(iter(built_for or fitting), None)

    def run(self, tasks: Sequence[BatchTask], listener: EventListener) -> Iterator[TaskEnd]:
        """As TaskExecutor says. OSError where the folder cannot be used."""
        waiting: list[tuple[BatchTask, Gpu | None]] = []
        for task in tasks:
            demand, gpu = self._gpu_for(task)
            if demand is not None and gpu is None:
                yield TaskEnd(task, record_of(task, TaskStatus.INVALID, self._without_gpu(demand)))
            else:
                waiting.append((task, gpu))
        running: dict[Future[TaskEnd], tuple[BatchTask, int | None]] = {}
        threads = ThreadPoolExecutor(max(1, len(waiting)), thread_name_prefix="batch")
        self._stack.callback(threads.shutdown, cancel_futures=True)
        try:
            while waiting or running:
                self._begin(threads, waiting, running)
                said = self._said.get()
                if isinstance(said, Event):
                    listener(said)
                elif isinstance(said, Future):
                    running.pop(said)
                    yield said.result()
                else:
                    for task, _ in waiting:
                        yield TaskEnd(task, record_of(task, TaskStatus.CANCELLED, cancelled(task)))
                    waiting.clear()
                    self._stop_all()
        finally:
            self._end()

    def _begin(
        self,
        threads: ThreadPoolExecutor,
        waiting: list[tuple[BatchTask, Gpu | None]],
        running: dict[Future[TaskEnd], tuple[BatchTask, int | None]],
    ) -> None:
        """Start all tasks that there is room for, in order, except that GPU tasks and others do not wait for each
        other."""
        blocked: set[object] = set()  # kinds of GPU, None, of which an earlier task waits
        for one in list(waiting):
            task, gpu = one
            if gpu in blocked:
                continue
            taken = [number for _, number in running.values()]
            number = None
            if gpu is not None:
                free = (i for i, other in enumerate(self._gpus) if other == gpu and i not in taken)
                number = next(free, None)
            if (gpu is None) != (number is None) or not self._has_room(task, gpu, running):
                blocked.add(gpu)
                continue
            waiting.remove(one)
            idle = self._idle.setdefault(number, [])
            future = threads.submit(self._run_one, task, idle.pop() if idle else None, number)
            running[future] = task, number
            future.add_done_callback(self._said.put)

    def _has_room(
        self, task: BatchTask, gpu: Gpu | None, running: dict[Future[TaskEnd], tuple[BatchTask, int | None]]
    ) -> bool:
        """Whether enough cores are free, as the zoo counts them; a task that wants more than all runs alone."""
        others = [other.needs.cpus for other, number in running.values() if (number is None) == (gpu is None)]
        if gpu is None and self._jobs is not None and len(others) >= self._jobs:
            return False
        return not others or sum(others) + task.needs.cpus <= max(self._cores, self._jobs or 0)

    def _run_one(self, task: BatchTask, runner: TaskRunner | None, number: int | None) -> TaskEnd:
        """In a thread."""
        if runner is None:
            visible = "" if number is None else _visible(number)
            gpu = "" if number is None else self._gpus[number].name
            runner = TaskRunner(self._folder, self._setup, gpu=gpu, visible=visible, machine=self._machine)
            self._runners.append(runner)
            if self._stopped:
                runner.stop()
        ended = runner.run(task, self._said.put)
        self._idle[number].append(runner)
        return ended

    def _stop_all(self) -> None:
        self._stopped = True
        for runner in list(self._runners):
            runner.stop()

    def _end(self) -> None:
        self._stop_all()
        self._stack.close()
        while self._runners:
            self._runners.pop().__exit__()
        self._idle.clear()
        self._said, self._stopped = SimpleQueue(), False  # tasks may be given to it again

    def _without_gpu(self, demand: GpuDemand) -> Problem:
        wanted = "a GPU" if demand.name == ANY else f"the GPU {demand.name}"
        there = ", ".join(sorted({gpu.name for gpu in self._gpus})) or "no GPU"
        return Problem(
            f"the task needs {wanted}; this machine has {there}",
            demand.why,
            "a machine with what every task needs",
            "run the batch on such a machine, or on a cluster that has one (--on ADDRESS); --only leaves tasks out",
        )


def _visible(number: int) -> str:
    """A GPU of this process, as a child's CUDA_VISIBLE_DEVICES has it."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES") or ""
    return named.split(",")[number].strip() if named else str(number)


def _fits(needed: str, gpu: str) -> bool:
    """ "H100" fits "NVIDIA H100 80GB HBM3"."""
    return needed == ANY or _parts(needed) <= _parts(gpu)


def _parts(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
