"""Supervises drivers of one checkout: a crash or a hang of one model is a finding about it, and another driver goes on."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

SCRIPTS = Path(__file__).resolve().parents[1]

START_S = 60
"""For the imports of the command."""

Job = Mapping[str, Any]


def python_of(checkout: Path, *more: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a Python that sees the checkout, `more` and installed packages, but no editable ones."""
    places = [checkout, *more, *site.getsitepackages()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    return [sys.executable, "-S"], environment


def run_jobs(
    checkout: Path, jobs: Sequence[tuple[str, Job]], size: int, timeout_s: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each job's finding as it comes, in any order; {"died": how} for one that ended its driver.

    size: drivers at a time. timeout_s: for one job.
    """
    pending: queue.SimpleQueue[tuple[str, Job]] = queue.SimpleQueue()
    for named in jobs:
        pending.put(named)
    done: queue.SimpleQueue[tuple[str, dict[str, Any]] | BaseException] = queue.SimpleQueue()
    threads = [
        threading.Thread(target=_serve, args=(checkout, pending, done, timeout_s), daemon=True)
        for _ in range(size)
    ]
    for thread in threads:
        thread.start()
    for _ in jobs:
        found = done.get()
        if isinstance(found, BaseException):
            raise found
        yield found
    for thread in threads:
        thread.join()


def _serve(
    checkout: Path,
    pending: queue.SimpleQueue[tuple[str, Job]],
    done: queue.SimpleQueue[tuple[str, dict[str, Any]] | BaseException],
    timeout_s: float,
) -> None:
    driver: CliDriver | None = None
    try:
        while True:
            try:
                name, job = pending.get_nowait()
            except queue.Empty:
                return
            driver = driver or CliDriver(checkout)
            found = driver.ask(job, timeout_s)
            if "died" in found:
                driver.close()
                driver = None
            done.put((name, found))
    except BaseException as error:
        done.put(error)
    finally:
        if driver is not None:
            driver.close()


class CliDriver:
    """One child (checkoutdiff/cli_driver.py) with a folder of its own."""

    def __init__(self, checkout: Path) -> None:
        self._killed = False
        self._held = ExitStack()
        folder = self._held.enter_context(tempfile.TemporaryDirectory(prefix="compare-"))
        self._log = Path(folder) / "stderr.txt"
        command, environment = python_of(checkout, SCRIPTS)
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [*command, "-m", "checkoutdiff.cli_driver", str(checkout), folder],
                cwd=checkout,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        if self._line(START_S) != b"ready\n":
            how = self._how()
            self.close()
            raise SystemExit(f"{checkout}: the command does not start: {how}")

    def ask(self, job: Job, timeout_s: float) -> dict[str, Any]:
        """What the child found, or how it died."""
        try:
            _pipe(self._child.stdin).write(json.dumps(job).encode() + b"\n")
            answer = self._line(timeout_s)
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):
            return {"died": self._how()}
        found: dict[str, Any] = json.loads(answer)
        return found

    def _line(self, timeout_s: float) -> bytes:
        """A line of its answers; part of one if the child died, or was killed when the time was over."""
        end = time.monotonic() + timeout_s
        line = bytearray()
        reading = _pipe(self._child.stdout).fileno()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self._killed = True
                self._child.kill()
            data = os.read(reading, 1 << 20)
            if not data:
                break
            line += data
        return bytes(line)

    def _how(self) -> str:
        status = self._child.wait()
        if self._killed:
            return "hangs"
        if status < 0:
            return f"crashes: {signal.Signals(-status).name}"
        said = self._log.read_text(errors="replace").strip().splitlines()
        return f"fails: {said[-1] if said else 'no message'}"

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            _pipe(pipe).close()
        self._held.close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
