"""Runs jobs in drivers of one checkout. A crash or hang is a finding about the model, and another driver takes over."""

from __future__ import annotations

import os
import queue
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.line_child import LineChild, after

SCRIPTS = Path(__file__).resolve().parents[1]

START_S = 60
"""For the imports of the command."""

Job = Mapping[str, Any]


def python_of(checkout: Path, *more: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a Python with the checkout, `more`, and installed packages except editable ones."""
    places = [checkout, *more, *site.getsitepackages()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    return [sys.executable, "-S"], environment


def run_jobs(
    checkout: Path, jobs: Sequence[tuple[str, Job]], size: int, timeout_s: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each job's finding, in any order; {"died": how} for a job that ended its driver.

    size: drivers at a time. timeout_s: for one job.
    """
    idle: queue.SimpleQueue[LineChild] = queue.SimpleQueue()
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))

        def run(number: int, name: str, job: Job) -> tuple[str, dict[str, Any]]:
            try:
                driver = idle.get_nowait()
            except queue.Empty:
                driver = _driver(checkout, folder / str(number))
                held.callback(driver.close)
            found = driver.ask(job, after(timeout_s))
            if "died" not in found:
                idle.put(driver)
            return name, found

        pool = ThreadPoolExecutor(size)
        held.callback(pool.shutdown, cancel_futures=True)
        for done in as_completed([pool.submit(run, i, *named) for i, named in enumerate(jobs)]):
            yield done.result()


def _driver(checkout: Path, folder: Path) -> LineChild:
    """Starts a child (checkoutdiff/cli_driver.py) with its own folder."""
    folder.mkdir()
    command, environment = python_of(checkout, SCRIPTS)
    words = [*command, "-m", "checkoutdiff.cli_driver", str(checkout), str(folder)]
    what = f"{checkout}: the command"
    return LineChild(words, checkout, environment, folder / "stderr.txt", what, START_S)
