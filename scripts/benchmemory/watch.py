"""Samples the memory of a command and of all its children from /proc while they run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.engine.child.session import session

ROOT = Path(__file__).resolve().parents[2]

WORKERS = ("trtsmith.converter.engine.build.build_worker", "trtsmith.converter.engine.runtime.run_worker")
"""The modules whose processes hold TensorRT, by which they are known."""

_INTERVAL_S = 0.01
_FIELDS = ("RssAnon", "RssFile", "RssShmem")


@dataclass(frozen=True)
class Resident:
    """Bytes of one process at one moment. mapped: of files, and shared. tensorrt: whether it is one of WORKERS."""

    anonymous: int
    mapped: int
    tensorrt: bool = False

    @property
    def total(self) -> int:
        return self.anonymous + self.mapped


@dataclass
class Peak:
    """Bytes resident at once in a command and its children: the largest sum, and the largest of each kind.

    without_tensorrt: the largest sum while no process of TensorRT was there.
    beside_tensorrt:  the largest sum of the other processes while one was there.
    """

    total: int = 0
    anonymous: int = 0
    mapped: int = 0
    without_tensorrt: int = 0
    beside_tensorrt: int = 0

    def add(self, processes: Iterable[Resident]) -> None:
        """What was resident at one moment."""
        processes = tuple(processes)
        self.total = max(self.total, sum(p.total for p in processes))
        self.anonymous = max(self.anonymous, sum(p.anonymous for p in processes))
        self.mapped = max(self.mapped, sum(p.mapped for p in processes))
        others = sum(p.total for p in processes if not p.tensorrt)
        if any(p.tensorrt for p in processes):
            self.beside_tensorrt = max(self.beside_tensorrt, others)
        else:
            self.without_tensorrt = max(self.without_tensorrt, others)


def peak_of(command: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ) -> Peak:
    """Run the command to its end in `folder`, and watch it and its children. CalledProcessError if it fails."""
    path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    environment = {**environment, "PYTHONPATH": path, "TMPDIR": str(folder)}
    started = time.monotonic()
    peak = Peak()
    with session(command, stdout=sys.stderr, cwd=folder, env=environment) as process:
        while process.poll() is None:
            peak.add(map(_resident, _tree(process.pid)))
            time.sleep(_INTERVAL_S)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    took = f"{time.monotonic() - started:.1f} s, {peak.total >> 20} MiB"
    print(f"{took}: {shlex.join(map(str, command))}", file=sys.stderr, flush=True)
    return peak


def _tree(root: int) -> list[int]:
    """The process and its descendants.

    From the parent of every process: the lists of children in /proc are of one thread each, and not every kernel has them.
    """
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _read(f"/proc/{name}/stat")
            if stat:  # number, name in parentheses with anything in it, state, parent
                parent = int(stat.rpartition(b")")[2].split(maxsplit=2)[1])
                children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _resident(pid: int) -> Resident:
    """What a process has in memory; nothing for one that has ended."""
    found = re.findall(rb"^(\w+):\s+(\d+) kB$", _read(f"/proc/{pid}/status"), re.MULTILINE)
    sizes = {name.decode(): int(size) * 1024 for name, size in found}
    anonymous, mapped, shared = (sizes.get(name, 0) for name in _FIELDS)
    words = _read(f"/proc/{pid}/cmdline").split(b"\0")
    return Resident(anonymous, mapped + shared, any(worker.encode() in words for worker in WORKERS))


def _read(path: str) -> bytes:
    """b"" where the process has ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
