"""Launches of TensorRT-RTX: those that capture a CUDA graph are alone, all others overlap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fakes import FakeTensorRT

from trtsmith.converter.engine.runtime.launching import Launcher
from trtsmith.converter.engine.runtime.runner import Runner

PATIENCE_S = 10.0
"""For what has to happen."""
BRIEFLY_S = 0.2
"""For what must not."""


class Execution:
    """An execute_async_v3 that goes on once it is let: `began` is set meanwhile."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, stream: int) -> bool:
        self.began.set()
        return self.go_on.wait(PATIENCE_S)


def settled(execution: Callable[[int], bool]) -> Launcher:
    """A launcher of a context whose graph is captured."""
    runs: list[Callable[[int], bool]] = [lambda stream: True]
    launcher = Launcher(lambda stream: runs[-1](stream), captures=True, always=False)
    for _ in range(3):
        assert launcher(7)
    runs.append(execution)
    return launcher


def launcher_of(kind: str, execution: Callable[[int], bool]) -> Launcher:
    if kind == "replays":
        return settled(execution)
    if kind == "changed":
        launcher = settled(execution)
        launcher.changed()
        return launcher
    if kind == "lazy":
        launcher = Launcher(lambda stream: True, captures=True, always=True)
        for _ in range(9):
            launcher(7)
        launcher._execute = execution
        return launcher
    return Launcher(execution, captures=kind == "captures", always=False)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("plain", "plain", True),
        ("plain", "replays", True),
        ("replays", "replays", True),
        ("plain", "captures", False),
        ("captures", "plain", False),
        ("captures", "replays", False),
        ("captures", "captures", False),
        ("changed", "plain", False),
        ("lazy", "replays", False),
    ],
)
def test_which_launches_overlap(first: str, second: str, together: bool) -> None:
    executions = Execution(), Execution()
    launchers = [launcher_of(kind, run) for kind, run in zip((first, second), executions, strict=True)]
    with ThreadPoolExecutor(2) as pool:
        launched = [pool.submit(launchers[0], 7)]
        assert executions[0].began.wait(PATIENCE_S)
        launched.append(pool.submit(launchers[1], 8))
        assert executions[1].began.wait(PATIENCE_S if together else BRIEFLY_S) == together
        for execution in executions:
            execution.go_on.set()
        assert all(launch.result(PATIENCE_S) for launch in launched)


def test_a_launch_that_fails_lets_the_others_go_on() -> None:
    def fail(stream: int) -> bool:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Launcher(fail, captures=True, always=False)(7)
    assert Launcher(lambda stream: True, captures=True, always=False)(7)


def test_sessions_tell_their_launcher_of_new_shapes(
    open_runner: Callable[..., Runner], rtx: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Launcher] = []

    class Seen(Launcher):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr("trtsmith.converter.engine.runtime.session.Launcher", Seen)
    session = open_runner(b"double", rtx, cuda_graph=True).session()
    for rows, runs in ((2, 1), (2, 2), (2, 3), (2, 3), (5, 1)):
        session.infer({"x": np.ones((rows, 3), np.float32)})
        assert made[-1]._runs == runs
