"""The progress of a batch: lines, and on a terminal live lines for running tasks."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trtsmith.batch_function import ProgressLines, seconds_text
from trtsmith.converter.batch.driver import BatchResult
from trtsmith.converter.batch.task import Event, TaskRecord, TaskStatus
from trtsmith.converter.cli.batch_progress import BatchProgress, LiveBatch, batch_progress
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.reports.batch_lines import problems_of, summary
from trtsmith.importers.problem import Problem

HOSTILE = "[red]net[/]\n[2/2] other: agree\x1b[2J"


def record(name: str, status: TaskStatus = TaskStatus.AGREE, *problems: Problem) -> TaskRecord:
    return TaskRecord(name, name, {}, status, seconds={"total": 3.21}, problems=problems)


def refused(name: str, count: int = 1) -> TaskRecord:
    problems = [Problem(f"what {n}", "node 'x'", "expected", "fix") for n in range(count)]
    return record(name, TaskStatus.REFUSED, *problems)


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress = BatchProgress(Console())
    progress.planned(4)
    progress.event(Event("a", "loading"))
    progress.ended(record("a"), "run")
    progress.ended(replace(record("b"), report={"verdict": {"basis": ["graph only"]}}), "kept")
    progress.ended(refused("c/x"), "run")
    progress.ended(refused("d"), "cache")
    progress.warn("the cache is full")
    assert capsys.readouterr().err.splitlines() == [
        "[1/4] a: agree (3.2 s)",
        "[2/4] b: agree (graph only) (kept)",
        "[3/4] c/x: refused (3.2 s)",
        "error: what 0",
        "  where:    c/x: node 'x'",
        "  expected: expected",
        "  fix:      fix",
        "[4/4] d: refused (from the cache)",
        "  the reason is that of c/x",
        "warning: the cache is full",
    ]


def compared(name: str, status: TaskStatus, reason: str, advice: str = "") -> TaskRecord:
    verdict = {"status": "not comparable", "basis": [], "reason": reason, "advice": advice}
    return replace(record(name, status), report={"verdict": verdict})


def test_what_did_not_pass_has_its_reason_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = BatchProgress(Console())
    progress.planned(7)
    progress.ended(compared("a/x", TaskStatus.NOT_COMPARABLE, "y draws\nnumbers", "give\x1b inputs"), "run")
    progress.ended(compared("a/z", TaskStatus.NOT_COMPARABLE, "y draws\nnumbers", "give\x1b inputs"), "run")
    progress.ended(compared("b", TaskStatus.DISAGREE, "word " * 200), "run")
    progress.ended(compared("c", TaskStatus.AGREE, "largest relative error 0"), "run")
    progress.ended(compared("d", TaskStatus.DISAGREE, "another"), "kept")
    progress.ended(record("e", TaskStatus.CRASHED, Problem("it died", "e", "expected", "fix")), "run")
    progress.ended(record("f", TaskStatus.CRASHED, Problem("it died", "f", "expected", "fix")), "run")
    lines = capsys.readouterr().err.splitlines()
    cut = lines.pop(6)
    assert cut.startswith("  reason: word word") and cut.endswith("word ...") and len(cut) < 420
    assert lines == [
        "[1/7] a/x: not comparable (3.2 s)",
        r"  reason: y draws\nnumbers",
        r"  next: give\x1b inputs",
        "[2/7] a/z: not comparable (3.2 s)",
        "  the reason is that of a/x",
        "[3/7] b: disagree (3.2 s)",
        "[4/7] c: agree (3.2 s)",
        "[5/7] d: disagree (kept)",
        "  reason: another",
        "[6/7] e: crashed (3.2 s)",
        "error: it died",
        "  where:    e",
        "  expected: expected",
        "  fix:      fix",
        "[7/7] f: crashed (3.2 s)",
        "  the reason is that of e",
    ]


def test_warnings_of_what_was_done_now_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = BatchProgress(Console())
    for name, source in (("a", "run"), ("b", "run"), ("c", "kept")):
        verdict = {"basis": [], "warnings": [f"{source}: unsteady"]}
        done = replace(record(name), report={"warnings": ["an input\nis gone"], "verdict": verdict})
        progress.ended(done, source)
    assert capsys.readouterr().err.splitlines() == [
        "[1/0] a: agree (3.2 s)",
        r"  warning: an input\nis gone",
        "  warning: run: unsteady",
        "[2/0] b: agree (3.2 s)",
        "[3/0] c: agree (kept)",
    ]


def test_quiet_shows_what_did_not_pass_alone_and_verbose_steps(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = BatchProgress(Console(quiet=True))
    quiet.ended(record("a"), "run")
    quiet.ended(refused("b"), "run")
    assert capsys.readouterr().err.startswith("[2/0] b: refused (3.2 s)\nerror: what 0\n")
    BatchProgress(Console(verbose=True)).event(Event("a", "loading"))
    assert capsys.readouterr().err == "a: loading\n"


def test_a_name_is_one_line_and_acts_on_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = BatchProgress(Console())
    progress.ended(refused(HOSTILE), "run")
    said = capsys.readouterr().err
    assert said.splitlines()[0] == r"[1/0] [red]net[/]\n[2/2] other: agree\x1b[2J: refused (3.2 s)"
    assert "\x1b" not in said and len(said.splitlines()) == 5


def test_many_problems_of_a_task_are_counted() -> None:
    shown = problems_of(refused("a", 5))
    assert len(shown) == 3 and "and 2 more" in shown[-1].what


def test_the_function_gets_the_same_lines() -> None:
    lines: list[str] = []
    progress = ProgressLines(lines.append)
    progress.planned(1)
    progress.ended(record("a"), "run")
    assert lines == ["[1/1] a: agree (3.2 s)"]


def test_live_lines() -> None:
    now = [100.0]
    live = LiveBatch(Console(quiet=True), clock=lambda: now[0])
    live.planned(10)
    assert live.lines() == ["0 of 10 ended, 0 running"]
    live.event(Event("a", "building", step="building the engine", share=0.37))
    live.event(Event(HOSTILE, "loading"))
    now[0] += 20
    live.event(Event("a", "verifying"))
    live.ended(record("c"), "kept")
    live.ended(record("d"), "run")
    assert live.lines() == [
        "a: verifying (20 s)",
        r"[red]net[/]\n[2/2] other: agree\x1b[2J: loading (20 s)",
        "2 of 10 ended (2 agree), 2 running, about 2 min 40 s left",
    ]
    live.event(Event("a", "building", step="building", share=0.37))
    assert live.lines()[0] == "a: building 37% (20 s)"
    live.ended(record("a"), "run")
    assert len(live.lines()) == 2
    for number in range(30):
        live.event(Event(f"n{number}", "x"))
    assert "... and 19 more" in live.lines()


def test_a_long_name_leaves_room_for_what_is_done() -> None:
    live = LiveBatch(Console(quiet=True), clock=lambda: 0.0)
    live.event(Event("network_" * 20 + "/sm86-fp16", "building the engine"))
    assert live.lines(60)[0] == "network_ne...etwork_/sm86-fp16: building the engine (0 s)"
    live.event(Event("a" * 30, "b"))
    assert live.lines(60)[1] == "a" * 30 + ": b (0 s)"


def drained(master: int) -> str:
    """What was written to a terminal that is closed now."""
    shown = b""
    with contextlib.suppress(OSError):  # at its end
        while part := os.read(master, 1 << 16):
            shown += part
    os.close(master)
    return shown.decode()


def test_on_a_terminal_lines_are_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with batch_progress(Console()) as progress:
            assert isinstance(progress, LiveBatch)
            progress.planned(2)
            progress.event(Event("[b]running", "at work"))
            progress.ended(record("[b]ended"), "run")
        with batch_progress(Console(quiet=True)) as progress:
            assert not isinstance(progress, LiveBatch)
    shown = drained(master)
    assert "[1/2] [b]ended: agree (3.2 s)\r\n" in shown
    assert "[b]running: at work (0 s)" in shown and "1 of 2 ended" in shown


def test_seconds() -> None:
    texts = {0.04: "0.0 s", 59.9: "59.9 s", 60: "1 min 0 s", 250: "4 min 10 s", 7500: "2 h 5 min"}
    assert {s: seconds_text(s) for s in texts} == texts


def test_summary() -> None:
    ends = (TaskStatus.AGREE, TaskStatus.AGREE, TaskStatus.REFUSED, TaskStatus.CANCELLED)
    statuses = dict(zip("abcd", ends, strict=True))
    result = BatchResult(Path("out"), statuses, {"a": "run", "b": "cache", "c": "run", "d": "run"}, 12.34)
    assert summary(result) == (
        "4 tasks in 12.3 s: 2 agree, 1 refused, 1 cancelled (2 done now, 1 from the cache)\nresults: out/index.html"
    )
