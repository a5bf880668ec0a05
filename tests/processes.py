"""Starts processes with this checkout first on their module path, and finds those that are left."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def children() -> set[int]:
    """The processes that this one has started and not yet waited for; the workers of tests/builds.py among them."""
    return set(map(int, Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()))


def children_of(process: subprocess.Popen[str]) -> set[int]:
    return set(map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))


def checkout_environment(**more: object) -> dict[str, str]:
    """This process's environment with `trtsmith` importable from this checkout. more: further variables."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH"))
    path = os.pathsep.join(filter(None, paths))
    return {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in more.items()}}


def readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, or nobody left to write it, within that time.

    select.select takes no descriptor above 1,023, and a process of thousands of tests has more: graphs are cycles, and the
    files of their models stay open until the garbage collector comes.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or goes within a minute: a signal takes its time. Else it is ended here."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    gone = readable(process, 60)
    if not gone:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    os.close(process)
    return gone
