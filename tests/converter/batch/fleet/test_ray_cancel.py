"""What is cancelled is waited for, so long and no longer, and then killed; Ray is a double here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from trtsmith.converter.batch.fleet import ray_cancel
from trtsmith.converter.batch.fleet.ray_cancel import cancel_all


@dataclass(eq=False)
class RunningTask:
    """A generator of Ray's. heeds: the cancellations that end it, by whether they kill."""

    heeds: tuple[bool, ...]
    heard: list[bool] = field(default_factory=list)

    def completed(self) -> RunningTask:
        return self

    def __next__(self) -> object:
        raise AssertionError("its next item may take as long as the task")


class RayDouble:
    def cancel(self, task: RunningTask, force: bool) -> None:
        task.heard.append(force)

    def wait(
        self, tasks: Sequence[RunningTask], timeout: float, fetch_local: bool
    ) -> tuple[list[RunningTask], list[RunningTask]]:
        assert timeout <= ray_cancel.CANCEL_S and not fetch_local
        over = [task for task in tasks if set(task.heeds) & set(task.heard)]
        return over, [task for task in tasks if task not in over]


def test_only_what_does_not_heed_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cancel, "CANCEL_S", 0.05)
    tasks = [RunningTask((False, True)), RunningTask((True,)), RunningTask(()), RunningTask((False,))]
    cancel_all(RayDouble(), tasks)
    assert [task.heard for task in tasks] == [[False], [False, True], [False, True], [False]]
