"""Gives workers a time limit for each item: one that hangs or dies costs that item, and another worker goes on."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

START_S = 60.0
"""For a worker's imports, and its first look at the GPU."""

Spawn = Callable[[Sequence[int], int], subprocess.Popen[bytes]]
"""Starts a worker, in a process group of its own, on the numbered items; its events go to the file descriptor."""

Tell = Callable[[dict[str, Any]], None]


def run_items(numbers: Sequence[int], spawn: Spawn, item_s: float, end: float, tell: Tell) -> None:
    """Let workers do the items, each at most item_s long, until time.monotonic() is `end`.

    tell gets every event of theirs, and {"event": "lost", "item": n, "reason": text} for an item that did not end. A
    worker that ends before it began an item stops the run: the next one would end so too.
    """
    left = list(numbers)
    while left:
        begun: list[int] = []
        reason = _run_worker(left, spawn, item_s, end, tell, begun)
        left = [number for number in left if number not in begun]
        if begun and reason:
            tell({"event": "lost", "item": begun[-1], "reason": reason})
        if not begun or time.monotonic() >= end:
            for number in left:
                tell({"event": "lost", "item": number, "reason": reason or "the worker left it out"})
            return


def _run_worker(
    numbers: Sequence[int], spawn: Spawn, item_s: float, end: float, tell: Tell, begun: list[int]
) -> str:
    """Run one worker; `begun` gets the items as it begins them. "" or why it did not come to its end."""
    read_end, write_end = os.pipe()
    child = spawn(numbers, write_end)
    os.close(write_end)
    limit_s, since, pending = START_S, time.monotonic(), b""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(read_end, selectors.EVENT_READ)
            while True:
                wait = min(since + limit_s, end) - time.monotonic()
                if wait <= 0 or not selector.select(wait):
                    return (
                        "no time was left" if time.monotonic() >= end else f"took longer than {limit_s:g} s"
                    )
                data = os.read(read_end, 65536)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for event in map(json.loads, lines):
                    if event["event"] == "begin":
                        begun.append(event["item"])
                        limit_s, since = item_s, time.monotonic()
                    tell(event)
        child.wait()
    finally:
        os.close(read_end)
        _end(child)
    if child.returncode == 0:
        return ""
    how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
    return f"the process ended with {how}"


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
