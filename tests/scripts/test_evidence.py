"""The status and the plan name the records, and the GPU runs what is stale."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import evidence
from freshness.record_rows import NEEDS, ROWS, RecordRow
from freshness.record_state import FRESH
from freshness.sources import ROOT, hashes, tree_here
from harness.processes import Ended
from tests.scripts.record_doubles import ROW, alone_in_the_table, describe_h200


def test_status_and_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert evidence.main(["--status", "--readme", "--json"]) in (0, 1)
    said = json.loads(capsys.readouterr().out)
    assert [one["file"] for one in said] == [row.file for row in ROWS if "README.md" in row.pages]
    assert {"state", "commit", "paths", "commits"} <= said[0].keys()
    code = evidence.main(["--status"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ROWS) and code == int(any(not line.startswith(FRESH) for line in lines))
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "chunk").write_bytes(bytes(3_000_000))
    assert evidence.main(["--plan", "--bundle", str(tmp_path)]) == 0
    plan = capsys.readouterr().out
    files = [line.split()[2] for line in plan.splitlines() if line.lstrip()[0].isdigit() and "min  " in line]
    order = [row.file for row in ROWS]
    assert files == sorted(files, key=order.index) and all("/" in file for file in files)
    if "with bundle" in plan:
        assert "bundle: 3 MB\n" in plan


def test_the_gpu_runs_what_is_stale_until_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_the_table = alone_in_the_table(tmp_path, monkeypatch)
    rows = [
        ROW,
        RecordRow("h200/bare.json", 1, ROW.rests_on, (), "-m trtsmith plugin bench {record}"),
        RecordRow("h200/long.json", 8, ROW.rests_on, (), "long.py"),
        RecordRow("h200/popular.json", 1, ROW.rests_on, (), "popular.py", "popular"),
        RecordRow("h100/elsewhere.json", 1, ROW.rests_on, (), "elsewhere.py"),
        RecordRow("h200/no_script.json", 0, ROW.rests_on, ()),
    ]
    of_today = {"rests_on": hashes(ROW.rests_on, tree_here())}
    ran: list[list[str]] = []

    def run_boxed(command: list[str], limit_s: float, folder: Path) -> Any:
        assert limit_s <= 540 and folder == ROOT
        ran.append(command[1:])
        if command[1] == "one.py":
            left = {"left": 4} if len(ran) == 1 else {}
            of_the_table.write_text(json.dumps({**of_today, "commit": "abcdef0", **left}))
        else:
            Path(command[-1]).write_text(json.dumps({"commit": "abcdef0"}))
        return Ended(0, "", 10.0, None)

    monkeypatch.setattr(evidence, "ROWS", rows)
    monkeypatch.setattr(evidence, "run_boxed", run_boxed)
    monkeypatch.setattr(evidence, "describe", describe_h200)
    assert evidence.main(["--gpu", "--seconds", "300"]) == 1
    first = ["one.py", str(of_the_table), "280"]
    assert [command[0] for command in ran] == ["one.py", "one.py", "-m"], "long.py has not its eight minutes"
    assert ran[0][:2] == first[:2] and int(ran[0][2]) in (279, 280)
    out = capsys.readouterr().out
    assert "h200/popular.json: --bundle DIR/popular is not there; --plan says what writes it" in out
    assert "rows that were not measured: 4" in out
    assert out.splitlines()[-1] == "2 of 4 records are fresh; left: h200/long.json, h200/popular.json"


def test_records_of_times_are_made_alone_and_others_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone_in_the_table(tmp_path, monkeypatch)
    scripts = ("scripts/bench_table.py", "scripts/gpu_check.py", "scripts/real_models.py")
    rows = [
        RecordRow(f"h200/{i}.json", 1, ROW.rests_on, (), name + " {record}") for i, name in enumerate(scripts)
    ]
    both, running = threading.Barrier(2), Counter[str]()

    def run_boxed(command: list[str], limit_s: float, folder: Path) -> Any:
        running[command[1]] += 1
        if "bench" in command[1]:
            assert running.total() == 1
        else:
            both.wait(timeout=20)
        running[command[1]] -= 1
        Path(command[-1]).write_text(json.dumps({"rests_on": hashes(ROW.rests_on, tree_here())}))
        return Ended(0, "", 10.0, None)

    monkeypatch.setattr(evidence, "ROWS", rows)
    monkeypatch.setattr(evidence, "run_boxed", run_boxed)
    monkeypatch.setattr(evidence, "describe", describe_h200)
    assert evidence.main(["--gpu", "--seconds", "300"]) == 0


@pytest.mark.parametrize(
    ("gpu", "commit", "said"),
    [
        ("NVIDIA GeForce", "abcdef0", "the table has no record of this GPU, NVIDIA GeForce"),
        ("NVIDIA H200", "unknown", "the commit is not known"),
    ],
)
def test_the_gpu_and_the_commit_are_needed(
    gpu: str, commit: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evidence, "describe", lambda *_: {"gpu": gpu, "commit": commit})
    assert evidence.main(["--gpu"]) == 2
    assert said in capsys.readouterr().err


def test_commands_name_scripts_and_what_travels() -> None:
    for one in ROWS:
        words = evidence.command_of(one, Path("DIR"), "abcdef0", 540)[1:]
        assert not words or words[0] == "-m" or (ROOT / words[0]).is_file(), one.file
        assert one.needs in ("", *NEEDS)
        if one.on_gpu and one.command:
            assert str(one.path) in words and "abcdef0" in words
    assert sys.executable == evidence.command_of(ROW, None, "", 30)[0]
