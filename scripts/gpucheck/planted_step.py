"""Runs scripts/planted_errors.py as a step: its exit code is the verdict, its last line the summary, its JSON the row."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpubundle.unpack import BROKEN_LIBRARY, LIBRARY_FOLDER, MODEL_FOLDER
from gpucheck.record import Notes
from harness.processes import run_boxed

ROOT = Path(__file__).resolve().parents[2]

AT_ONCE = 6
"""Planted errors that are searched for side by side."""


def command_of(bundle: Path | None) -> list[str]:
    """The script and its arguments, but for --output."""
    words = [str(ROOT / "scripts" / "planted_errors.py")]
    if bundle is not None:
        words += ["--at-once", str(AT_ONCE), "--on", "gpu", "--models", str(bundle / MODEL_FOLDER)]
        words += ["--broken-library", str(bundle / LIBRARY_FOLDER / BROKEN_LIBRARY)]
    return words


def check(bundle: Path | None, limit_s: float, notes: Notes) -> None:
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "record.json"
        ended = run_boxed([sys.executable, *command_of(bundle), "--output", str(output)], limit_s, ROOT)
        found: Any = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else None
    if found is not None:  # machine and commit are in the record that it becomes part of
        notes.row(found={key: found[key] for key in ("on", "planted")})
    if ended.problem:
        notes.failure(ended.problem)
    lines = [line for line in ended.output.splitlines() if line.strip()]
    notes.summary(lines[-1].strip() if lines else "no output")
