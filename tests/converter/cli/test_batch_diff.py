"""`trtsmith batch diff`: what it prints, its files, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.converter.batch.results.sample import HOSTILE_NAMES, VERSIONS, record, report, times, write_results
from trtsmith.converter.batch.results.diff import SCHEMA_FILE
from trtsmith.converter.batch.task import TaskStatus
from trtsmith.converter.cli.main import main

VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


@pytest.fixture(autouse=True)
def two_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    moved = report(routes={"native": 8})
    moved["engine"]["plugin_layers"] = [f"/layer{number}" for number in range(8)]
    old = [
        record("refused"),
        record("faster", bench=times(2.0)),
        record("moved"),
        record("same"),
        record("gone"),
    ]
    new = [
        record("refused", TaskStatus.REFUSED),
        record("faster", bench=times(1.0), versions=VERSIONS | {"tensorrt_rtx": "1.8"}),
        record("moved", report=moved), record("same"), record("new"),
    ]  # fmt: skip
    for name, records in (("old", old), ("new", new)):
        Path(name).mkdir()
        write_results(Path(name), records)


def call(*words: str) -> int:
    return main(["batch", "diff", *words])


def test_what_changed_is_printed_worse_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("old", "new") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0].startswith("old: old 5 tasks 20") and lines[1].startswith("new: new 5 tasks 20")
    nodes = "; ".join(f"/layer{number}: native or not there -> plugin" for number in range(5))
    assert lines[2:] == [
        "versions that changed",
        "tensorrt_rtx 1.7.1.116 -> 1.7.1.116, 1.8",
        "worse: 1 task",
        "refused status agree -> refused (no importer for operator mmcv::TemporalShift)",
        "better: 1 task",
        "faster latency 2 ms -> 1 ms (-50.0%, opt images 1x3x64x64)",
        "different: 1 task",
        f"moved routes 7 native, 1 plugin -> 8 native ({nodes}; and 4 more)",
        "new: 1 task",
        "new agree",
        "gone: 1 task",
        "gone agree",
        "1 worse, 1 better, 1 different, 1 new, 1 gone, 1 same",
    ]


def test_a_batch_that_goes_on_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    write_results(Path("new"), [record("same")], planned=5)
    assert call("old", "new") == 0
    assert "new:  new  1 of 5 tasks  " in capsys.readouterr().out


def test_exit_codes() -> None:
    assert call("old", "new", "--fail-on", "worse") == 1
    assert call("old/results.json", "old", "--fail-on", "worse") == 0
    better = [record("same", report=report(size=800_000))]
    Path("better").mkdir()
    write_results(Path("better"), better)
    assert call("old", "better", "--fail-on", "worse") == 0  # tasks that are gone are no failures
    assert call("better", "old", "--fail-on", "worse") == 1


def test_json_and_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("old", "new", "--json", "--html", "diff.html") == 0
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    assert not VALIDATOR.is_valid(document | {"summary": {}})
    assert document["summary"] == {"worse": 1, "better": 1, "different": 1, "new": 1, "gone": 1, "same": 1}
    assert [(task["name"], task["mark"]) for task in document["tasks"]] == [
        ("refused", "worse"), ("faster", "better"), ("moved", "different"),
    ]  # fmt: skip
    assert document["tasks"][0]["changes"][0] == {
        "aspect": "status", "mark": "worse", "old": "agree", "new": "refused",
        "note": "no importer for operator mmcv::TemporalShift", "items": [],
    }  # fmt: skip
    assert document["new_tasks"] == {"new": "agree"} and document["old"]["tasks"] == 5
    assert "<!doctype html>" in Path("diff.html").read_text()


@pytest.mark.parametrize("place", ["old/results.json", "old", "none/diff.html"])
def test_a_page_replaces_no_result(capsys: pytest.CaptureFixture[str], place: str) -> None:
    before = Path("old/results.json").read_bytes()
    assert call("old", "new", "--html", place) == 2
    assert capsys.readouterr().err.startswith("error: the page ")
    assert Path("old/results.json").read_bytes() == before


def test_names_are_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    for name, status in (("old", TaskStatus.AGREE), ("new", TaskStatus.REFUSED)):
        write_results(Path(name), [record(one, status) for one in HOSTILE_NAMES])
    assert call("old", "new") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out and "\x00" not in out
    assert out.count("status  agree -> refused") == len(HOSTILE_NAMES)
    assert "  two\\nlines and a tab\\t" in out


def test_what_is_no_result_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old/results.json").write_text("[]")
    assert call("old", "new") == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "error: the results of a batch cannot be read: TypeError: [] is not an object\n  where:    old/results.json"
    )
    assert call("nowhere", "new", "--json") == 2
