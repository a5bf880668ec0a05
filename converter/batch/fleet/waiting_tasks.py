"""Holds the tasks that wait in the driver, as plain data, and says how many of them Ray may have at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trtsmith.converter.batch.fleet.node_facts import RayNode, alive_nodes
from trtsmith.converter.batch.fleet.task_resources import TaskResources
from trtsmith.converter.batch.task import BatchTask

NODES_S = 5.0
"""Between two looks at which machines there are."""

_PER_CORE = 2
_MORE = 2
"""Tasks that are handed to Ray: two for each core or GPU that runs them, and two more. It has the next one then before the
last one ends."""


@dataclass(frozen=True)
class WaitingTask:
    """attempts: those that were made."""

    task: BatchTask
    resources: TaskResources
    attempts: int = 0


class WaitingTasks:
    """Tasks by the kind of GPU that they need, so that those which wait for one do not hold up the others.

    nodes: the machines that there are. unfit: Ray's names of those that get no tasks.
    """

    def __init__(self, ray: Any, nodes: Sequence[RayNode]) -> None:
        self.unfit: set[str] = set()
        self._ray, self._nodes = ray, list(nodes)
        self._queues: dict[str, deque[WaitingTask]] = {}
        self._looked = self._fitting = time.monotonic()

    def add(self, waiting: WaitingTask) -> None:
        self._queue(waiting).append(waiting)

    def add_again(self, waiting: WaitingTask) -> None:
        """It is the next one of its kind."""
        self._queue(waiting).appendleft(waiting)

    def _queue(self, waiting: WaitingTask) -> deque[WaitingTask]:
        gpu = waiting.resources.gpu
        return self._queues.setdefault("" if gpu is None else f"GPU {gpu.accelerator}", deque())

    def take(self, held: Iterable[TaskResources]) -> WaitingTask | None:
        """One that Ray may have; held: of those that it has."""
        held = list(held)
        for queue in self._queues.values():
            if queue and self._has_room(queue[0].resources, held):
                return queue.popleft()
        return None

    def _has_room(self, resources: TaskResources, held: Sequence[TaskResources]) -> bool:
        if resources.gpu is None:
            slots = sum(node.cpus for node in self._nodes)
        else:
            slots = sum(node.gpus for node in self._nodes if resources.fit(node))
        return sum(other.gpu == resources.gpu for other in held) < _PER_CORE * slots + _MORE

    def hopeless(self, held: Iterable[tuple[Any, TaskResources]], patience_s: float) -> Iterator[Any]:
        """The keys of those that no machine can run any more, once that has been so for this time. Looks now and then."""
        now = time.monotonic()
        if now < self._looked + NODES_S:
            return
        self._looked = now
        self._nodes = [node for node in alive_nodes(self._ray) if node.id not in self.unfit]
        without = [key for key, resources in held if not any(resources.fit(node) for node in self._nodes)]
        if not without:
            self._fitting = now
        elif now > self._fitting + patience_s:
            yield from without

    def drop_hopeless(self) -> list[WaitingTask]:
        """Those that wait here and that no machine can run; they wait no longer."""
        dropped: list[WaitingTask] = []
        for queue in self._queues.values():
            kept = [one for one in queue if any(one.resources.fit(node) for node in self._nodes)]
            dropped += [one for one in queue if one not in kept]
            queue.clear()
            queue.extend(kept)
        return dropped
