"""The parent's side of test_worker.py: start it, ask it, notice that it died or hangs, start it again."""

from __future__ import annotations

import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from trtsmith.converter.engine.libraries import PACKAGE_ROOT
from trtsmith.converter.model.errors import EXIT_USAGE, TrtsmithError, UsageError
from trtsmith.importers.problem import Problem

_MALLOC = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
"""Freed memory is overwritten at once, so that its use after that shows."""

SLOWEST_START_S = 60.0
"""Time that Python and the library get to start, however short the limit for a check is."""


class WorkerDiedError(Exception):
    """The child ended, or did not answer in time; reads as the end of a sentence about the plugin."""


class WorkerTimeoutError(WorkerDiedError):
    """The child did not answer in time, and was ended."""


class Worker:
    """A child with a library loaded. ask() starts one where there is none."""

    def __init__(self, library: Path, host: Path | None, timeout_s: float) -> None:
        self._library = library
        self._host = host
        self._timeout_s = timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._errors.close()

    def start(self) -> dict[str, Any]:
        """Load the library in a new child and return its description.

        Raises the child's own error, or UsageError where loading ended the child.
        """
        self._kill()
        root = str(PACKAGE_ROOT)
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
        environment["GLIBC_TUNABLES"] = ":".join(filter(None, (environment.get("GLIBC_TUNABLES"), _MALLOC)))
        self._errors.seek(0)
        self._errors.truncate()
        self._pending = b""
        self._child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from trtsmith.converter.plugin.test_worker import main; main()",
                str(self._library),
                str(self._host or ""),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        try:
            answer = self._read(max(self._timeout_s, SLOWEST_START_S))
        except WorkerDiedError as death:
            raise UsageError(
                Problem(
                    f"loading the library {death}",
                    str(self._library),
                    "a library that can be loaded",
                    "load it in a debugger, and check the libraries that it needs with ldd",
                )
            ) from death
        if "error" in answer:
            problem = Problem(**answer["error"])
            raise UsageError(problem) if answer["exit_code"] == EXIT_USAGE else TrtsmithError(problem)
        library: dict[str, Any] = answer["library"]
        return library

    def restart(self) -> None:
        """End the child; the next question starts another."""
        self._kill()

    def ask(self, request: tuple[int, str, object]) -> dict[str, Any]:
        """Raises WorkerDiedError where no answer comes."""
        if self._child is None:
            self.start()
        assert self._child is not None and self._child.stdin is not None
        try:
            pickle.dump(request, self._child.stdin, protocol=5)
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        return self._read(self._timeout_s)

    def finish(self) -> None:
        """Let the child unload the library and end. Raises WorkerDiedError where that ends it otherwise."""
        if self._child is None:
            self.start()
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.close()
        self._read(self._timeout_s)
        try:
            code = self._child.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self._kill()
            raise WorkerTimeoutError(f"did not end within {self._timeout_s:g} s") from None
        if code != 0:
            raise self._died()
        self._kill()

    def _read(self, limit_s: float) -> dict[str, Any]:
        assert self._child is not None and self._child.stdout is not None
        end = monotonic() + limit_s
        stream = self._child.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, end - monotonic())):
                    self._kill()
                    raise WorkerTimeoutError(f"did not return within {limit_s:g} s")
                data = os.read(stream, 1 << 16)
                if not data:
                    raise self._died()
                self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _died(self) -> WorkerDiedError:
        """What the child ended with, and the last thing that it said."""
        assert self._child is not None
        try:
            code = self._child.wait(10)
        except subprocess.TimeoutExpired:
            code = 0
        self._errors.seek(0)
        said = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        self._kill()
        how = (
            f"ended the process with {_signal(-code)}"
            if code < 0
            else f"ended the process with exit code {code}"
        )
        return WorkerDiedError(how + (f", which said: {' / '.join(said[-3:])}" if said else ""))

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # what was left to write has no reader any more
                    stream.close()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
