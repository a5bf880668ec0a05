"""Starts commands in sessions of their own, so that a whole process tree can be ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def start_session(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
    """Starts the command, with nothing on its stdin. Ctrl-C reaches it through us only: see `end_session`.

    options: of subprocess.Popen.
    """
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kills the command and everything in its session, unless it has ended already."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def session(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the command for a block, and ends it however the block ends."""
    process = start_session(command, **options)
    try:
        yield process
    finally:
        end_session(process)
