#!/usr/bin/env python3
"""Times the commands of the guide "your own operator", from nothing to an engine, and prints a table.

    python scripts/own_operator_times.py [--wheel dist/trtsmith-*.whl] [--output times.json]

They run in a temporary folder, one after another; the exit code is 1 if one fails. With --wheel they run in a fresh
environment, into which the wheel is installed first with the extras rtx and cuda; else as this Python has trtsmith. Nothing
else should run on the machine: the record has its load.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "VoxelMaxPool"
FOLDER = "voxel_max_pool"
COMMANDS = (
    f"trtsmith new {NAME} --domain mycompany",
    f"trtsmith build-plugins {FOLDER}",
    f"pytest -q {FOLDER}",
    f"trtsmith convert {FOLDER}/example.onnx -o example.plan --ops {FOLDER}",
    f"trtsmith build-plugins {FOLDER}",
)
"""The last one compiles nothing: it shows what an unchanged package costs."""


@dataclass(frozen=True)
class TimedCommand:
    """A command as a user writes it, and the seconds that it took."""

    command: str
    seconds: float


def argv_of(command: str, python: Path) -> list[str]:
    """The command's words, run by this Python's own modules."""
    program, *words = shlex.split(command)
    return [str(python), "-m", program, *words]


def timed(command: str, argv: Sequence[str], folder: Path) -> TimedCommand:
    """Runs it. SystemExit with what it said, if it fails."""
    start = time.perf_counter()
    done = subprocess.run(
        argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return TimedCommand(command, round(time.perf_counter() - start, 1))


def measure(wheel: Path | None, folder: Path) -> Iterator[TimedCommand]:
    python = Path(sys.executable)
    if wheel is not None:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        python = folder / "venv" / "bin" / "python"
        extras = f"{wheel.resolve()}[rtx,cuda]"
        command = "pip install 'trtsmith[rtx,cuda]' pytest"
        yield timed(command, [str(python), "-m", "pip", "install", "-q", extras, "pytest"], folder)
    for command in COMMANDS:
        yield timed(command, argv_of(command, python), folder)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="install this wheel into a fresh environment first")
    parser.add_argument("--output", type=Path, metavar="JSON", help="write the record there")
    options = parser.parse_args(arguments)
    load = round(os.getloadavg()[0], 1)
    found = []
    with tempfile.TemporaryDirectory(prefix="trtsmith-own-operator-") as folder:
        for one in measure(options.wheel, Path(folder)):
            print(f"{one.seconds:8.1f} s  {one.command}", flush=True)
            found.append(one)
    record = {
        "cores": len(os.sched_getaffinity(0)),
        "load_before": load,
        "fresh_environment": options.wheel is not None,
        "commands": [asdict(one) for one in found],
    }
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
