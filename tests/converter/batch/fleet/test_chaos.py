"""Nodes, workers, builders and the driver are killed; every task still ends once, with the right result."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchbench.chaos_log import begun_needlessly, read_begins


def test_every_task_ends_once_whatever_is_killed(
    short_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    from batchbench.chaos import Chaos

    said: list[str] = []
    wrong = Chaos(short_folder, tasks=60, real=2, say=said.append).run()
    assert not wrong, "\n".join(wrong)
    assert [line.partition(";")[0] for line in said] == [
        "a node was removed",
        "a worker was killed",
        "the driver was killed",
    ]


def test_only_a_kill_is_a_reason_to_begin_again(tmp_path: Path) -> None:
    """By host, by node, and in the run of a second driver; the task `fine` began again with nothing killed."""
    log = tmp_path / "log"
    assert read_begins(log) == []
    rows = [
        "fine 1 10 100 j1", "worker 2 11 100 j1", "node 3 12 200 j1", "driver 4 13 100 j1",
        "fine 5 10 100 j1", "worker 6 13 100 j1", "node 7 13 100 j1", "driver 8 14 100 j2",
        "worker 9 14 100 j2", "worker 10 14 100 j2",
    ]  # fmt: skip
    log.write_text("\n".join(rows))
    assert begun_needlessly(read_begins(log)[:8], {11, 200}) == {"fine": 2}
    assert begun_needlessly(read_begins(log)[:8], {11}) == {"fine": 2, "node": 2}
    assert begun_needlessly(read_begins(log)[:8], {200}) == {"fine": 2, "worker": 2}
    assert begun_needlessly(read_begins(log), {11, 200}) == {"fine": 2, "worker": 2}
