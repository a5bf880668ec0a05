"""`trtsmith batch diff`: its output, its files, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.converter.batch.results.sample import (
    HOSTILE_NAMES,
    VERSIONS,
    record,
    report,
    times,
    write_pair,
    write_results,
)
from tests.converter.batch.results.test_diff import VALIDATOR
from tests.converter.cli.commands.running import Cli, refused
from trtsmith.converter.batch.task import TaskStatus


@pytest.fixture(autouse=True)
def two_results(here: Path) -> None:
    moved = report(routes={"native": 8})
    moved["engine"]["plugin_layers"] = [f"/layer{number}" for number in range(8)]
    faster = record("faster", bench=times(1.0), versions=VERSIONS | {"tensorrt_rtx": "1.8"})
    old = [*map(record, ("refused", "moved", "same", "gone")), record("faster", bench=times(2.0))]
    new = [
        record("refused", TaskStatus.REFUSED),
        faster,
        record("moved", report=moved),
        *map(record, ("same", "new")),
    ]
    write_pair(here, old, new)


def test_what_changed_is_printed_worse_first(cli: Cli) -> None:
    ran = cli("batch diff old new")
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines() if line]
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


def test_a_batch_that_goes_on_is_told(cli: Cli) -> None:
    write_results(Path("new"), [record("same")], planned=5)
    ran = cli("batch diff old new")
    assert ran.code == 0 and "new:  new  1 of 5 tasks  " in ran.out


def test_exit_codes(cli: Cli) -> None:
    Path("better").mkdir()
    write_results(Path("better"), [record("same", report=report(size=800_000))])
    for words, code in (
        ("old new", 1),
        ("old/results.json old", 0),
        ("old better", 0),  # tasks that are gone are no failures
        ("better old", 1),
    ):
        assert cli(f"batch diff {words} --fail-on worse").code == code


def test_json_and_the_page(cli: Cli) -> None:
    ran = cli("batch diff old new --json --html diff.html")
    assert ran.code == 0
    document = json.loads(ran.out)
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
def test_a_page_replaces_no_result(cli: Cli, place: str) -> None:
    before = Path("old/results.json").read_bytes()
    refused(cli(f"batch diff old new --html {place}"), 2, "error: the page ")
    assert Path("old/results.json").read_bytes() == before


def test_names_are_printed_as_text(cli: Cli) -> None:
    old, new = (
        [record(one, status) for one in HOSTILE_NAMES] for status in (TaskStatus.AGREE, TaskStatus.REFUSED)
    )
    write_pair(Path(), old, new)
    ran = cli("batch diff old new")
    assert ran.code == 0
    out = ran.out
    assert "\x1b" not in out and "\u202e" not in out and "\x00" not in out
    assert out.count("status  agree -> refused") == len(HOSTILE_NAMES)
    assert "  two\\nlines and a tab\\t" in out


def test_what_is_no_result_is_refused(cli: Cli) -> None:
    Path("old/results.json").write_text("[]")
    said = "error: the results of a batch cannot be read: TypeError: [] is not an object\n  where:    old/results.json"
    refused(cli("batch diff old new"), 2, said)
    assert cli("batch diff nowhere new --json").code == 2
