"""Both sides of a child process that answers requests, each a line of JSON. Standard library only."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

Late = Callable[[], bool]


def after(seconds: float) -> Late:
    """Tells whether this many seconds have passed since the call."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


class LineChild:
    """The parent's side. The child has its own session; its other output goes to the log.

    SystemExit, which names `what`, if it does not come to its first request within start_s.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
        what: str,
        start_s: float,
    ) -> None:
        self._log, self._ended_late = log, False
        with log.open("ab") as said:
            self._child = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                bufsize=0,
                start_new_session=True,
            )
        self.pid = self._child.pid
        if self._line(after(start_s)) != b"ready\n":
            raise SystemExit(f"{what} does not start: {self._death()}")

    def ask(self, request: object, late: Late) -> dict[str, Any]:
        """The child's answer; {"died": how} if it ended or was ended for being late, after which another is needed."""
        with suppress(BrokenPipeError):
            _pipe(self._child.stdin).write(json.dumps(request).encode() + b"\n")
        line = self._line(late)
        answer: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {"died": self._death()}
        return answer

    def _line(self, late: Late) -> bytes:
        """A line; a part of one if the child ended or is late."""
        line, reading = bytearray(), _pipe(self._child.stdout).fileno()
        poll = select.poll()  # select takes no descriptor above 1,023
        poll.register(reading, select.POLLIN)
        while not line.endswith(b"\n"):
            if poll.poll(200):
                data = os.read(reading, 1 << 20)
                if not data:
                    break
                line += data
            elif late():
                self._ended_late = True
                break
        return bytes(line)

    def _death(self) -> str:
        status = 0 if self._ended_late else self._child.wait()
        self.close()
        if self._ended_late:
            return "hangs"
        if status < 0:
            return f"crashes: {signal.Signals(-status).name}"
        said = self._log.read_text(errors="replace").strip().splitlines()
        return f"fails: {said[-1] if said else 'no message'}"

    def close(self) -> None:
        """Ends the child and everything that it started."""
        if _pipe(self._child.stdin).closed:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            _pipe(pipe).close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def answer_lines(made: Callable[[], Callable[[Any], Any]]) -> None:
    """The child's side. made: returns the function that answers a request. Other output goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer = made()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
