"""Starts the child that runs commands, applies time limits to it, and replaces it if it dies."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.line_child import LineChild, after

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "trtsmith.converter.cli.main:main"
START_S = 300.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Limits:
    """Limits for one model. cpu_s: CPU time in the child; wall_s: for waits on children, or on a busy machine."""

    cpu_s: float = 20.0
    wall_s: float = 200.0
    resident_mib: int = 1024
    address_mib: int = 4096


USUAL = Limits()


@dataclass
class FuzzProcess:
    """A child with its own folder, which contains TMPDIR, so that leftover files are seen."""

    folder: Path
    limits: Limits
    command: str = COMMAND
    calls: bool = False
    _child: LineChild | None = field(default=None, repr=False)

    @property
    def work(self) -> Path:
        """The folder of the model and of the commands' output."""
        return self.folder / "work"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def ask(self, words: list[str]) -> dict[str, Any]:
        """The child's answer to a command; {"died": how, "said": text} if it dies."""
        child = self._child = self._child or self._start()
        spent, late = _cpu_s(child.pid), after(self.limits.wall_s)
        answer = child.ask(words, lambda: late() or _cpu_s(child.pid) - spent > self.limits.cpu_s)
        if "died" in answer:
            self._child = None
            answer["said"] = (self.folder / "said.txt").read_text(encoding="utf-8", errors="replace")[
                -20_000:
            ]
        return answer

    def clean(self) -> None:
        """Empties both folders for the next model."""
        for folder in (self.work, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def left(self) -> dict[str, list[str]]:
        """The files and folders left in both folders."""
        return {
            "work": sorted(path.name for path in self.work.iterdir()),
            "temporary": sorted(path.name for path in self.temporary.iterdir()),
        }

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def _start(self) -> LineChild:
        self.temporary.mkdir(parents=True, exist_ok=True)
        paths = (str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH"))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TMPDIR": str(self.temporary),
            "OMP_NUM_THREADS": "1",
        }
        said = self.folder / "said.txt"
        words = [str(said), self.command, str(self.limits.address_mib), *(["--calls"] if self.calls else [])]
        command = [sys.executable, "-m", "fuzzing.fuzz_child", *words]
        return LineChild(command, self.folder, environment, said, "the child", START_S)


def _cpu_s(pid: int) -> float:
    """The CPU time of a process and its finished children; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / _TICKS
