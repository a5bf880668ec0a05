"""Nodes, workers, builders and the driver are killed; every task still ends once, with the right result."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_every_task_ends_once_whatever_is_killed(
    short_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    from batchbench.chaos import Chaos

    said: list[str] = []
    assert Chaos(short_folder, tasks=60, real=2, say=said.append).run() == []
    assert [line.partition(";")[0] for line in said] == [
        "a node was removed",
        "a worker was killed",
        "the driver was killed",
    ]
