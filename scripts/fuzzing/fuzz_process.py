"""Starts the child that runs commands, asks it with limits of time, and starts another in the place of one that died."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "trtsmith.converter.cli.main:main"
START_S = 300.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Limits:
    """Of one model. cpu_s: of processor time in the child; wall_s: for children that it waits for, and a busy machine."""

    cpu_s: float = 20.0
    wall_s: float = 200.0
    resident_mib: int = 1024
    address_mib: int = 4096


USUAL = Limits()


@dataclass
class FuzzProcess:
    """One child with a folder of its own. TMPDIR is in it, so that every file that is left behind is seen."""

    folder: Path
    limits: Limits
    command: str = COMMAND
    calls: bool = False
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def work(self) -> Path:
        """Where the model lies, and what the commands write."""
        return self.folder / "work"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def ask(self, commands: list[list[str]]) -> dict[str, Any]:
        """What the child answers; {"died": how, "said": text} if it did."""
        child = self._child or self._start()
        request = json.dumps({"commands": commands}).encode() + b"\n"
        try:
            _pipe(child.stdin).write(request)
        except BrokenPipeError:
            return self._dead("")
        line, why = self._line(child)
        if why or not line.endswith(b"\n"):
            return self._dead(why)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def clean(self) -> None:
        """Both folders empty: for the next model."""
        for folder in (self.work, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def left(self) -> dict[str, list[str]]:
        """Files and folders in both folders."""
        return {
            "work": sorted(path.name for path in self.work.iterdir()),
            "temporary": sorted(path.name for path in self.temporary.iterdir()),
        }

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            _end(child)

    def _start(self) -> subprocess.Popen[bytes]:
        self.temporary.mkdir(parents=True, exist_ok=True)
        paths = (str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH"))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TMPDIR": str(self.temporary),
            "OMP_NUM_THREADS": "1",
        }
        words = [
            str(self.folder),
            self.command,
            str(self.limits.address_mib),
            *(["--calls"] if self.calls else []),
        ]
        self._child = subprocess.Popen(
            [sys.executable, "-m", "fuzzing.fuzz_child", *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        ready, _, _ = select.select([_pipe(self._child.stdout)], [], [], START_S)
        if not ready or _pipe(self._child.stdout).readline() != b"ready\n":
            said = self._said()
            self.close()
            raise SystemExit(f"the child does not start: {said}")
        return self._child

    def _line(self, child: subprocess.Popen[bytes]) -> tuple[bytes, str]:
        """Its answer, and "hangs" if it took longer than it may."""
        line = bytearray()
        began, spent = time.monotonic(), _cpu_s(child.pid)
        reading = _pipe(child.stdout).fileno()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([reading], [], [], 0.5)
            if ready:
                data = os.read(reading, 1 << 20)
                if not data:
                    return bytes(line), ""
                line += data
            elif (
                _cpu_s(child.pid) - spent > self.limits.cpu_s or time.monotonic() - began > self.limits.wall_s
            ):
                return bytes(line), "hangs"
        return bytes(line), ""

    def _dead(self, why: str) -> dict[str, Any]:
        child, self._child = self._child, None
        assert child is not None
        if not why:
            status = child.wait()
            why = f"dies: {signal.Signals(-status).name}" if status < 0 else f"ends with code {status}"
        _end(child)
        return {"died": why, "said": self._said()}

    def _said(self) -> str:
        path = self.folder / "said.txt"
        return path.read_text(encoding="utf-8", errors="replace")[-20_000:] if path.is_file() else ""


def _cpu_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended; 0 of one that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / _TICKS


def _end(child: subprocess.Popen[bytes]) -> None:
    """With all that it started: it has a process group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        _pipe(pipe).close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
