"""Runs jobs in a pool of workers with TensorRT-RTX and onnxruntime: a crash or hang is a finding, and costs one job."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.child.exits import signal_name
from trtsmith.converter.engine.child.pool import NotDone, Outcome, Pool
from trtsmith.converter.engine.child.process import ChildDied

SCRIPTS = Path(__file__).resolve().parents[1]

RETIRE = "retire"
"""A job that finds this key true is its worker's last: what CUDA says after an error holds for the whole process."""


@dataclass(frozen=True)
class Finding:
    """The result of a job. died: "", or the end of its worker in a few words: "crashes: SIGABRT"."""

    found: dict[str, Any]
    died: str = ""

    def verdict(self, **row: str) -> dict[str, Any]:
        """The job's result, or a row with its worker's death as verdict and reason."""
        verdict, _, reason = self.died.partition(": ")
        return self.found or {"verdict": verdict, **row, "reason": reason}


def run_jobs(
    module: str,
    jobs: deque[str],
    size: int,
    timeout_s: float,
    folder: Path,
    end: float | None = None,
    **options: Any,
) -> Iterator[tuple[str, Finding]]:
    """Yields each job's finding as it comes; the reader may append to `jobs` meanwhile.

    module:  has work(job, folder, **options), which returns what can be JSON, and runs in the workers.
    size:    workers at a time. timeout_s: for one job. end: on time.monotonic(); what is not done then comes back as died.
    """
    setup = json.dumps({"module": module, "folder": str(folder), "options": options})
    with Pool(
        "harness.job_worker",
        size,
        flavour="tensorrt_rtx",
        setup=setup,
        paths=[SCRIPTS, SCRIPTS.parent],
    ) as pool:
        pending: deque[tuple[str, str]] = deque()
        _move(jobs, pending)
        for job, outcome in pool.run(pending, timeout_s, end=end):
            yield job, _finding(outcome)
            _move(jobs, pending)


def _move(jobs: deque[str], pending: deque[tuple[str, str]]) -> None:
    while jobs:
        job = jobs.popleft()
        pending.append((job, job))


def _finding(outcome: Outcome) -> Finding:
    error = outcome.error
    if error is None:
        return Finding(outcome.get())
    if isinstance(error, NotDone):
        return Finding({}, f"not done: {error}")
    if not isinstance(error, ChildDied):
        return Finding({}, f"fails: {error.problems[0].what}")
    if error.timed_out:
        return Finding({}, f"hangs: {error.how}")
    if error.code is not None and error.code < 0:
        return Finding({}, f"crashes: {signal_name(-error.code)}")
    last = error.log.strip().splitlines()[-1:]
    return Finding({}, f"fails: {error.how}{': ' if last else ''}{''.join(last)}")
