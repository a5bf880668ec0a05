"""A row of a record that does not exist, and what makes it the only one in the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshness import record_rows
from freshness.record_rows import RecordRow
from freshness.sources import Part
from harness import run_record

OPERATORS = ("BevPool",)
KERNELS = Part("kernels", operators=OPERATORS)
ROW = RecordRow("h200/one.json", 1, (KERNELS,), ("README.md",), "one.py {record} {seconds}")


def describe_h200(*_: object) -> dict[str, str]:
    return {"gpu": "NVIDIA H200", "commit": "abcdef0"}


def alone_in_the_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts benchmarks/ into a folder and ROW alone into the table, on a machine with an H200. Returns ROW's file."""
    monkeypatch.setattr(record_rows, "BENCHMARKS", folder)
    monkeypatch.setattr(record_rows, "ROWS", (ROW,))
    monkeypatch.setattr(run_record, "describe", describe_h200)
    monkeypatch.setattr(run_record, "plugin_library", lambda: Path("lib.so"))
    ROW.path.parent.mkdir()
    return ROW.path
