"""Tells what the tasks of chaos.py say when they begin, and which of them were begun again although nothing struck them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Begin:
    """One line of the log. pid: of the process that converts. host: the Ray worker that has it. raylet: Ray's process for
    their node. job: Ray's name of the driver's run."""

    task: str
    pid: int
    host: int
    raylet: int
    job: str


def write_begin(path: Path, task: str) -> None:
    """Say that the task begins in this process, which a Ray worker has started."""
    ray = os.environ
    begin = Begin(task, os.getpid(), os.getppid(), int(ray["RAY_RAYLET_PID"]), ray["RAY_JOB_ID"])
    with open(path, "a") as log:
        log.write(" ".join(map(str, astuple(begin))) + "\n")


def read_begins(path: Path) -> list[Begin]:
    """In the order in which they came; none where there is no log."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [line.split() for line in lines]
    return [Begin(task, int(pid), int(host), int(raylet), job) for task, pid, host, raylet, job in rows]


def begun_needlessly(begins: Sequence[Begin], killed: Collection[int]) -> dict[str, int]:
    """Tasks that one driver began more often than it had to, with how often they began.

    killed: Ray workers and raylets that were killed. A task that one of them had may be begun again, even one that had
    ended: its result may not have left them. Of the others one has to be the last.
    """
    all_of = Counter((begin.job, begin.task) for begin in begins)
    struck = Counter(
        (begin.job, begin.task) for begin in begins if begin.host in killed or begin.raylet in killed
    )
    return {key[1]: count for key, count in all_of.items() if count - struck[key] > 1}
