"""The tasks that wait on one machine, and the cores and GPUs that decide which of them begins."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

from trtsmith.converter.batch.gpu_demand import ANY
from trtsmith.converter.batch.task import BatchTask


class PendingTasks:
    """Given out to threads: in their order, but for those that wait for a GPU, which others do not wait for.

    cores: how many tasks may take together; one that wants more runs while no other does.
    """

    def __init__(self, tasks: Sequence[BatchTask], cores: float) -> None:
        self._waiting = list(reversed(tasks))  # so that the next one is popped off the end
        self._cores = cores
        self._taken = 0.0
        self._running = 0
        self._stopped = False
        self._changed = threading.Condition()

    def take(self, gpu: str) -> BatchTask | None:
        """The next task for a thread, once there are cores for it; None when there is none any more.

        gpu: the name of the GPU that the thread has, which then takes tasks for it only; "" for none.
        """
        with self._changed:
            while not self._stopped:
                place = self._next(gpu)
                if place is None:
                    return None
                task = self._waiting[place]
                if self._running == 0 or self._taken + task.needs.cpus <= self._cores:
                    del self._waiting[place]
                    self._taken += task.needs.cpus
                    self._running += 1
                    return task
                self._changed.wait()
            return None

    def done(self, task: BatchTask) -> None:
        """A task that was taken has ended."""
        with self._changed:
            self._taken -= task.needs.cpus
            self._running -= 1
            self._changed.notify_all()

    def stop(self) -> None:
        """No task is given out any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _next(self, gpu: str) -> int | None:
        for place in range(len(self._waiting) - 1, -1, -1):
            if fits(self._waiting[place].needs.gpu, gpu):
                return place
        return None


def fits(needed: str, gpu: str) -> bool:
    """Whether a task with that need is for a thread with that GPU: "H100" fits "NVIDIA H100 80GB HBM3"."""
    if not needed or not gpu:
        return not needed and not gpu
    return needed == ANY or set(_parts(needed)) <= set(_parts(gpu))


def _parts(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
