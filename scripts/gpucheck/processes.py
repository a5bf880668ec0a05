"""Runs child processes within a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LEAST_S = 3.0
"""No step is started with less time than this."""


@dataclass
class Clock:
    """The time that is left for all steps together."""

    end: float

    @classmethod
    def of(cls, seconds: float) -> Clock:
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        return self.end - time.monotonic()

    def box(self, limit_s: float) -> float | None:
        """Seconds for a step that may take limit_s; None where too little is left to start it."""
        left = min(limit_s, self.left())
        return left if left >= LEAST_S else None


@dataclass(frozen=True)
class Ended:
    """How a process ended. problem: None where it ended with exit code 0."""

    code: int | None
    output: str
    seconds: float
    problem: str | None


def run_boxed(command: Sequence[str], limit_s: float, folder: Path | None = None) -> Ended:
    """Run a command and everything that it starts, at most limit_s long. Its output is stdout and stderr together."""
    began = time.monotonic()
    child = subprocess.Popen(
        list(command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # with its children: a kernel that hangs is in one of them
        output, _ = child.communicate()
        return Ended(
            None, output, time.monotonic() - began, f"took longer than {limit_s:.0f} s and was ended"
        )
    problem = None
    if child.returncode != 0:
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
        last = " / ".join([line for line in output.splitlines() if line.strip()][-3:])
        problem = f"ended with {how}: {last}"
    return Ended(child.returncode, output, time.monotonic() - began, problem)
