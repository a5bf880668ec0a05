"""Runs child processes within a time limit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.engine.child.exits import describe_exit
from trtsmith.converter.engine.child.session import end_session, session

LEAST_S = 3.0
"""No step is started with less time than this."""


@dataclass
class Clock:
    """The time left for all steps together."""

    end: float

    @classmethod
    def of(cls, seconds: float) -> Clock:
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        return self.end - time.monotonic()

    def box(self, limit_s: float) -> float | None:
        """Seconds for a step of at most limit_s; None if too little is left to start it."""
        left = min(limit_s, self.left())
        return left if left >= LEAST_S else None


@dataclass(frozen=True)
class Ended:
    """The end of a process. problem: None for exit code 0."""

    code: int | None
    output: str
    seconds: float
    problem: str | None


def run_boxed(command: Sequence[str], limit_s: float | None, folder: Path | None = None) -> Ended:
    """Runs a command with everything that it starts, for at most limit_s or without a limit. Its output is stdout and stderr
    together.
    """
    began = time.monotonic()
    late = False
    with session(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        try:
            said, _ = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            late = True
            end_session(child)  # with its children: a kernel that hangs is in one of them
            said, _ = child.communicate()
    output, seconds = said.decode(errors="replace"), time.monotonic() - began
    if late:
        return Ended(None, output, seconds, f"took longer than {limit_s:.0f} s and was ended")
    problem = None
    if child.returncode != 0:
        last = " / ".join([line for line in output.splitlines() if line.strip()][-3:])
        problem = f"{describe_exit(child.returncode)}: {last}"
    return Ended(child.returncode, output, seconds, problem)
