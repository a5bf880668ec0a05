"""The script that measures commands against a bare interpreter, and its committed record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import startup_seconds

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "startup.json"


def test_it_writes_a_record_and_says_what_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(startup_seconds, "RUNS", 1)
    monkeypatch.setattr(startup_seconds, "COMMANDS", ("--version",))
    for limit, code in ((60.0, 0), (0.0, 1)):
        monkeypatch.setattr(startup_seconds, "LIMITS", {"--version": limit})
        assert startup_seconds.main(["--json", str(tmp_path / "r.json")]) == code
        record = json.loads((tmp_path / "r.json").read_text())
        assert record == json.loads(capsys.readouterr().out)
    assert record["bare"] > 0 and record["seconds"]["--version"] > 0 and record["machine"]["cpu"]


def test_the_record_has_what_the_script_measures_within_its_limits() -> None:
    record = json.loads(RECORD.read_text())
    assert [*record["seconds"]] == [*startup_seconds.COMMANDS] and record["limits"] == startup_seconds.LIMITS
    assert all(record["seconds"][words] <= limit for words, limit in record["limits"].items())
