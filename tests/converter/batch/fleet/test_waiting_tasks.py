"""Ray has a bounded number of tasks at a time; those that wait for a GPU hold up no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.converter.batch.workers import task
from trtsmith.converter.batch.fleet import waiting_tasks
from trtsmith.converter.batch.fleet.accelerators import GpuKind
from trtsmith.converter.batch.fleet.node_facts import RayNode
from trtsmith.converter.batch.fleet.task_resources import TaskResources
from trtsmith.converter.batch.fleet.waiting_tasks import WaitingTask, WaitingTasks

PLAIN = TaskResources(1, 0, None)
L4 = TaskResources(1, 0, GpuKind("L4", "sm89", 1, "NVIDIA L4"))
NODES = [RayNode("a", "a", 3, 0, 8), RayNode("b", "b", 1, 1, 8, ("L4",))]


class FakeRay:
    def __init__(self) -> None:
        self.gone = False

    def nodes(self) -> list[dict[str, Any]]:
        resources = {"CPU": 1.0, "GPU": 1.0, "memory": 8.0, "accelerator_type:L4": 1.0}
        return [{"Alive": not self.gone, "NodeID": "b", "NodeManagerAddress": "b", "Resources": resources}]


def taken(waiting: WaitingTasks) -> list[WaitingTask]:
    found: list[WaitingTask] = []
    while (one := waiting.take([other.resources for other in found])) is not None:
        found.append(one)
    return found


def test_two_for_each_core_and_gpu_and_two_more() -> None:
    waiting = WaitingTasks(FakeRay(), NODES)
    for number in range(100):
        waiting.add(WaitingTask(task(f"gpu-{number}"), L4))
        waiting.add(WaitingTask(task(f"cpu-{number}"), PLAIN))
    names = [one.task.name for one in taken(waiting)]
    assert sum(name.startswith("cpu") for name in names) == 2 * 4 + 2
    assert sum(name.startswith("gpu") for name in names) == 2 * 1 + 2
    assert names[:4] == [f"gpu-{number}" for number in range(4)]


def test_what_is_begun_again_comes_next() -> None:
    waiting = WaitingTasks(FakeRay(), NODES)
    waiting.add(WaitingTask(task("a"), PLAIN))
    waiting.add_again(WaitingTask(task("b"), PLAIN, attempts=1))
    assert [(one.task.name, one.attempts) for one in taken(waiting)] == [("b", 1), ("a", 0)]


def test_tasks_without_a_machine_are_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(waiting_tasks.time, "monotonic", lambda: now)
    ray = FakeRay()
    waiting = WaitingTasks(ray, NODES)
    held = [("gpu", L4), ("cpu", PLAIN)]

    def hopeless(after_s: float) -> list[str]:
        nonlocal now
        now += after_s
        return list(waiting.hopeless(held, 60))

    assert hopeless(100) == []
    ray.gone = True
    assert hopeless(6) == [] and hopeless(1) == []
    assert hopeless(60) == ["gpu", "cpu"]
    waiting.add(WaitingTask(task("a"), PLAIN))
    waiting.add(WaitingTask(task("b"), L4))
    assert [one.task.name for one in waiting.drop_hopeless()] == ["a", "b"] and taken(waiting) == []
    ray.gone = False
    assert hopeless(6) == []
    waiting.add(WaitingTask(task("a"), PLAIN))
    assert waiting.drop_hopeless() == [] and len(taken(waiting)) == 1
    waiting.unfit.add("b")
    assert hopeless(6) == [] and hopeless(60) == ["gpu", "cpu"]
