"""Runs steps that are commands: the exit code is the verdict, the last line the summary."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpubundle.unpack import BROKEN_LIBRARY, LIBRARY_FOLDER, MODEL_FOLDER
from gpucheck.record import Notes
from harness.processes import run_boxed

ROOT = Path(__file__).resolve().parents[2]

AT_ONCE = 6
"""Planted errors that are searched for side by side."""


def check_pytest(limit_s: float, notes: Notes) -> None:
    _pytest(["tests/gpu", "--ignore=tests/gpu/engines"], limit_s, notes)


def check_engine_pytest(limit_s: float, notes: Notes) -> None:
    _pytest(["tests/gpu/engines"], limit_s, notes)


def _pytest(what: Sequence[str], limit_s: float, notes: Notes) -> None:
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    _run(["-m", "pytest", *what, "--require-gpu", "-q", "-p", "no:cacheprovider"], limit_s, notes)


def check_planted(bundle: Path | None, limit_s: float, notes: Notes) -> None:
    """Runs the planted errors; the script's own record is the row, without machine and commit."""
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "record.json"
        _run([*planted_command(bundle), "--output", str(output)], limit_s, notes)
        found: Any = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else None
    if found is not None:
        notes.row(found={key: found[key] for key in ("on", "planted")})


def planted_command(bundle: Path | None) -> list[str]:
    """The script and its arguments, without --output."""
    words = [str(ROOT / "scripts" / "planted_errors.py")]
    if bundle is not None:
        words += ["--at-once", str(AT_ONCE), "--on", "gpu", "--models", str(bundle / MODEL_FOLDER)]
        words += ["--broken-library", str(bundle / LIBRARY_FOLDER / BROKEN_LIBRARY)]
    return words


def _run(words: Sequence[str], limit_s: float, notes: Notes) -> None:
    ended = run_boxed([sys.executable, *words], limit_s, ROOT)
    if ended.problem:
        notes.failure(ended.problem)
    lines = [line for line in ended.output.splitlines() if line.strip()]
    notes.summary(lines[-1].strip("= ") if lines else "no output")
