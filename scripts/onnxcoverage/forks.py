"""Runs functions in forked children of this process, some at a time: a crash or a hang is a finding, and costs little.

Whatever is imported before is there in each child.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Job = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Finding:
    """What a child found, or how it ended: `died` is "" or a few words, `said` the end of what it printed."""

    found: dict[str, Any]
    died: str = ""
    said: str = ""


@dataclass
class _Child:
    key: str
    pid: int
    pipe: int
    until: float
    data: bytes = b""


def run_all(
    pending: deque[tuple[str, Job]], jobs: int, timeout_s: float, folder: Path
) -> Iterator[tuple[str, Finding]]:
    """Each job's finding as it comes. Whoever reads may append to `pending` while this runs."""
    running: dict[int, _Child] = {}
    while pending or running:
        while pending and len(running) < jobs:
            child = _start(*pending.popleft(), timeout_s, folder)
            running[child.pipe] = child
        ready, _, _ = select.select(list(running), [], [], 0.5)
        for pipe in ready:
            data = os.read(pipe, 1 << 20)
            running[pipe].data += data
            if not data:
                child = running.pop(pipe)
                yield child.key, _finding(child, folder)
        for child in [c for c in running.values() if time.monotonic() > c.until]:
            os.kill(child.pid, signal.SIGKILL)
            running.pop(child.pipe)
            finding = _finding(child, folder)
            yield child.key, Finding({}, f"hangs: not done after {timeout_s:g} s", finding.said)


def _start(key: str, job: Job, timeout_s: float, folder: Path) -> _Child:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(key, pid, reading, time.monotonic() + timeout_s)
    code = 1
    try:
        os.close(reading)
        log = os.open(folder / f"{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        found = json.dumps(job())
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            pipe.write(found)
        code = 0
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)  # no tear-down of what the parent owns


def _finding(child: _Child, folder: Path) -> Finding:
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    log = folder / f"{child.pid}.log"
    said = said_in(log)
    log.unlink(missing_ok=True)
    if status:
        return Finding({}, how_it_died(status, said), said)
    return Finding(json.loads(child.data), said=said)


def said_in(log: Path) -> str:
    """The end of what a child printed."""
    return log.read_text(errors="replace")[-2000:] if log.is_file() else ""


def how_it_died(status: int, said: str) -> str:
    """Why a child found nothing, by its status as os.waitpid gives it."""
    if os.WIFSIGNALED(status):
        return f"crashes: {signal.Signals(os.WTERMSIG(status)).name}"
    last = said.strip().splitlines()[-1] if said.strip() else "no message"
    return f"fails: {last}"
