"""Jobs in workers with TensorRT-RTX: shared state, and reports of failed ones."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

import pytest

from harness.jobs import RETIRE, run_jobs

pytest.importorskip("tensorrt_rtx")

MODULE = "tests.scripts.some_jobs"


def test_workers_are_kept_and_crashes_hangs_and_errors_are_findings(tmp_path: Path) -> None:
    jobs = deque(["a", "crash", "b", "hang", "fail", "exit", "c", "last", "d", "e"])
    found = dict(run_jobs(MODULE, jobs, 1, 3, tmp_path, word="option"))
    assert found["crash"].died == "crashes: SIGABRT"
    assert found["hang"].died == "hangs: did not finish within 3 s"
    assert found["fail"].died == "fails: trtsmith failed: ValueError: no"
    assert found["exit"].died == "fails: exited with code 3: the last words"
    pids = {name: finding.found["pid"] for name, finding in found.items() if finding.found}
    assert pids["c"] == pids["last"] != pids["d"] == pids["e"]
    assert pids["a"] != pids["b"] and RETIRE not in found["last"].found
    assert found["a"].found["folder"] == str(tmp_path) and found["a"].found["word"] == "option"
    assert list(tmp_path.iterdir()) == []


def test_jobs_may_come_while_others_are_done(tmp_path: Path) -> None:
    jobs = deque(["a"])
    done = []
    for name, finding in run_jobs(MODULE, jobs, 2, 20, tmp_path):
        done.append((name, finding.found["got"]))
        if name == "a":
            jobs.extend(["b", "c"])
    assert sorted(done) == [("a", "a"), ("b", "b"), ("c", "c")]


def test_what_there_is_no_time_for_is_named(tmp_path: Path) -> None:
    jobs = deque(["hang", "a", "b"])
    found = dict(run_jobs(MODULE, jobs, 1, 60, tmp_path, time.monotonic() + 3))
    assert {finding.died for finding in found.values()} == {"not done: no time was left"}
    assert sorted(found) == ["a", "b", "hang"]
