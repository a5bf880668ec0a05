"""Runs steps that are scripts of their own: their exit code is the verdict, their last line the summary."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpubundle.unpack import BROKEN_LIBRARY, LIBRARY_FOLDER, MODEL_FOLDER
from gpucheck.processes import run_boxed
from gpucheck.record import Notes

ROOT = Path(__file__).resolve().parents[2]

SCRIPTS = {"planted": "planted_errors.py", "runner": "bench_runner.py"}

AT_ONCE = 6
"""Planted errors that are searched for side by side."""

FOUND = {"planted": ("on", "planted"), "runner": ("python", "tensorrt", "loop", "repetitions", "cases")}
"""What is kept of each script's own record: machine and commit are in the record that it becomes part of."""


def command_of(step: str, bundle: Path | None) -> list[str]:
    """The script and its arguments, but for --output."""
    words = [str(ROOT / "scripts" / SCRIPTS[step])]
    if step == "planted" and bundle is not None:
        words += ["--at-once", str(AT_ONCE), "--on", "gpu", "--models", str(bundle / MODEL_FOLDER)]
        words += ["--broken-library", str(bundle / LIBRARY_FOLDER / BROKEN_LIBRARY)]
    return words


def check(step: str, bundle: Path | None, limit_s: float, notes: Notes) -> None:
    """The step. The script's JSON becomes one row."""
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "record.json"
        command = [sys.executable, *command_of(step, bundle), "--output", str(output)]
        ended = run_boxed(command, limit_s, ROOT)
        found: Any = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else None
    if found is not None:
        notes.row(found={key: found[key] for key in FOUND[step] if key in found})
    if ended.problem:
        notes.failure(ended.problem)
    lines = [line for line in ended.output.splitlines() if line.strip()]
    notes.summary(lines[-1].strip() if lines else "no output")
