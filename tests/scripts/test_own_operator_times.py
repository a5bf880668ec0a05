"""The timed commands are those of the guide."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import own_operator_times
from tests.docs.blocks import blocks_of
from tests.processes import ROOT


def test_they_are_the_first_commands_of_the_guide() -> None:
    page = ROOT / "docs" / "guides" / "your-own-operator.md"
    shown = [command.text for block in blocks_of(page)[:2] for command in block.commands]
    assert len(shown) <= 6
    assert shown[0] == "pip install 'trtsmith[rtx,cuda]' pytest"
    assert tuple(shown[1:]) == own_operator_times.COMMANDS[: len(shown) - 1]


def test_a_record_is_written_and_a_failure_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_operator_times, "COMMANDS", ("json.tool --help",))
    record = tmp_path / "times.json"
    assert own_operator_times.main(["--output", str(record)]) == 0
    (entry,) = json.loads(record.read_text())["commands"]
    assert entry["command"] == "json.tool --help" and entry["seconds"] < 60
    assert "json.tool --help" in capsys.readouterr().out
    monkeypatch.setattr(own_operator_times, "COMMANDS", ("json.tool gone.json",))
    with pytest.raises(SystemExit, match="exit code"):
        own_operator_times.main([])
    assert own_operator_times.argv_of("pytest -q x", Path(sys.executable))[1:] == ["-m", "pytest", "-q", "x"]
