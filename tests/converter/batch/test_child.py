"""Tasks run one at a time: any fate of the process becomes a record, and no process remains."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.workers import NAME, left_in, pid_in, task, write_worker
from tests.converter.models import inverse, relu, written
from tests.processes import children, has_ended
from trtsmith.converter.batch.child import ChildSetup, TaskRunner
from trtsmith.converter.batch.task import BatchTask, Event, Needs, TaskStatus


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    write_worker(tmp_path)
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def runner(scratch: Path) -> Iterator[TaskRunner]:
    with TaskRunner(scratch, ChildSetup(NAME, [scratch.parent])) as runner:
        yield runner


def silent(event: Event) -> None:
    del event


def test_a_task_becomes_a_folder_and_a_record(runner: TaskRunner, scratch: Path) -> None:
    events: list[Event] = []
    ended = runner.run(task("net/sm86"), events.append)
    record, folder = ended.record, ended.folder
    assert folder is not None and left_in(folder) == ["model.plan"] and scratch in folder.parents
    data = (folder / "model.plan").read_bytes()
    assert record.files["model.plan"].sha256 == hashlib.sha256(data).hexdigest()
    assert record.files["model.plan"].bytes == len(data)
    assert (record.name, record.model, record.variant) == ("net/sm86", "net", {"target": "sm86"})
    assert record.status is TaskStatus.AGREE and record.problems == () and record.warnings == ("w",)
    assert record.command == ("trtsmith", "convert", "/models/net.onnx", "-o", "model.plan")
    assert record.report is not None and record.report["engine"]["engine_path"] == "model.plan"
    assert record.seconds.keys() == {"build", "total"} and record.peak_mib > 1
    assert record.place["pid"] in children() and record.place["gpu"] == ""
    assert record.versions == {"trtsmith": "1", "tensorrt_rtx": "1.7"}
    assert record.began.endswith("Z")
    assert [(event.task, event.text) for event in events] == [
        ("net/sm86", "starting"),
        ("net/sm86", "at work"),
    ]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["unverified"], TaskStatus.CONVERTED),
        (["code=1"], TaskStatus.REFUSED),
        (["code=2"], TaskStatus.INVALID),
        (["code=3"], TaskStatus.DISAGREE),
        (["segfault"], TaskStatus.CRASHED),
        (["mistake"], TaskStatus.CRASHED),
    ],
)
def test_statuses(runner: TaskRunner, words: list[str], status: TaskStatus) -> None:
    ended = runner.run(task("net", *words), silent)
    assert ended.record.status is status
    assert bool(ended.record.problems) is not status.passed or status is TaskStatus.DISAGREE
    assert (ended.folder is not None) == bool(ended.record.files)


def test_a_worker_lives_from_task_to_task(runner: TaskRunner) -> None:
    pids = [
        runner.run(task(f"net{n}", *words), silent).record.place["pid"]
        for n, words in enumerate([[], ["code=1"], []])
    ]
    assert len(set(pids)) == 1


def test_a_worker_that_dies_costs_its_task_and_says_its_last_words(runner: TaskRunner, scratch: Path) -> None:
    record = runner.run(task("net", "segfault"), silent).record
    (problem,) = record.problems
    assert "SIGSEGV" in problem.what and "the last words" in problem.what and problem.where == "net"
    left = children()
    after = runner.run(task("net"), silent).record
    assert after.status is TaskStatus.AGREE and after.place["pid"] in children() - left


@pytest.mark.parametrize(
    ("word", "needs", "status", "says"),
    [
        ("hang", Needs(timeout_s=5.0), TaskStatus.TIMEOUT, "did not end within 5 s"),
        ("eat=300", Needs(memory_mib=250), TaskStatus.MEMORY, "of 250 that it may take"),
    ],
)
def test_a_limit_ends_all_processes_of_a_task(
    runner: TaskRunner, scratch: Path, tmp_path: Path, word: str, needs: Needs, status: TaskStatus, says: str
) -> None:
    child, begun = tmp_path / "child", tmp_path / "begun"
    ended = runner.run(task("net", f"child={child}", f"begun={begun}", word, needs=needs), silent)
    assert ended.record.status is status and says in ended.record.problems[0].what
    assert ended.folder is None and left_in(scratch) == []
    assert all(has_ended(pid_in(path)) for path in (child, begun) if path.exists() and path.read_text())
    if status is TaskStatus.MEMORY:
        assert ended.record.peak_mib > 250
    assert runner.run(task("net"), silent).record.status is TaskStatus.AGREE


def test_stop_ends_the_task_that_runs_and_all_later_ones(runner: TaskRunner, tmp_path: Path) -> None:
    child, begun = tmp_path / "child", tmp_path / "begun"
    running = threading.Event()
    stopper = threading.Thread(target=lambda: (running.wait(), runner.stop()))
    stopper.start()

    def hear(event: Event) -> None:
        if event.text == "at work":
            running.set()

    ended = runner.run(task("net", f"child={child}", f"begun={begun}", "hang"), hear)
    stopper.join()
    assert ended.record.status is TaskStatus.CANCELLED and ended.folder is None
    assert all(has_ended(pid_in(path)) for path in (child, begun) if path.exists() and path.read_text())
    assert runner.run(task("other"), silent).record.status is TaskStatus.CANCELLED


@pytest.mark.parametrize("end", ["code=0", "segfault"])
def test_a_process_that_left_its_session_and_its_parent_is_ended(
    end: str, runner: TaskRunner, tmp_path: Path
) -> None:
    runner.run(task("a", f"daemon={tmp_path / 'pid'}", end), silent)
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_a_process_that_outlives_its_task_is_ended(runner: TaskRunner, tmp_path: Path) -> None:
    child = tmp_path / "child"
    runner.run(task("net", f"child={child}"), silent)
    assert has_ended(pid_in(child))


def test_nothing_is_left_but_results(scratch: Path) -> None:
    with TaskRunner(scratch, ChildSetup(NAME, [scratch.parent])) as runner:
        folder = runner.run(task("net"), silent).folder
        assert folder is not None
        runner.run(task("net", "code=1"), silent)
    assert left_in(scratch) == [str(folder.relative_to(scratch) / "model.plan")]


def test_a_worker_that_cannot_start_is_a_record(scratch: Path) -> None:
    with TaskRunner(scratch, ChildSetup("no_such_worker")) as runner:
        record = runner.run(task("net"), silent).record
    assert record.status is TaskStatus.CRASHED and "no_such_worker" in record.problems[0].what


def test_a_folder_without_room_is_a_record(
    runner: TaskRunner, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> str:
        raise OSError(28, os.strerror(28), "somewhere")

    monkeypatch.setattr("os.mkdir", full)
    record = runner.run(task("net"), silent).record
    assert record.status is TaskStatus.INVALID and "No space left" in record.problems[0].what


def real(name: str, source: Path, *words: str) -> BatchTask:
    return BatchTask(name=name, model=name, source=str(source), words=words, files=(source,))


def test_a_model_that_tensorrt_refuses_ends_a_task(tmp_path: Path, scratch: Path) -> None:
    """The contexts of its error lead back to where they began; the worker looked for a dead process in them for ever."""
    text = "(float[2] x) => (float[2] y) { y = my.ScaledTanh <alpha = 1.0> (x) }"
    refused = written(tmp_path / "m.onnx", text)
    with TaskRunner(scratch, ChildSetup()) as runner:
        done = runner.run(real("refused", refused, "--timeout", "60"), silent)
    assert done.record.status is TaskStatus.REFUSED and "ScaledTanh" in done.record.problems[0].what


def test_the_worker_runs_convert(tmp_path: Path, scratch: Path) -> None:
    fine, refused = relu(tmp_path / "fine.onnx"), tmp_path / "no.onnx"
    refused.write_bytes(b"no model")
    events: list[Event] = []
    with TaskRunner(scratch, ChildSetup()) as runner:
        done = runner.run(real("fine", fine), events.append)
        plain = runner.run(real("plain", inverse(tmp_path / "plain.onnx"), "--no-verify"), silent)
        wrong = runner.run(real("wrong", refused), silent)
        usage = runner.run(real("usage", fine, "--no-such-flag"), silent)
    assert done.record.status is TaskStatus.AGREE and done.folder is not None
    assert {"model.plan", "model.manifest.json", "report.html"} <= done.record.files.keys()
    page = (done.folder / "report.html").read_text()
    assert "model.plan" in page and str(scratch) not in page and "--report" not in page
    assert done.record.report is not None and done.record.report["converted"]
    assert {"load", "build", "verify", "total"} <= done.record.seconds.keys()
    assert "build: building the engine" in {event.step for event in events}
    assert any(event.share is not None and 0 < event.share <= 1 for event in events)
    assert {"trtsmith", "onnx", "tensorrt_rtx"} <= done.record.versions.keys()
    assert plain.record.status is TaskStatus.CONVERTED
    assert plain.record.place["pid"] == done.record.place["pid"]
    assert wrong.record.status is TaskStatus.INVALID and wrong.record.files.keys() == {"report.html"}
    assert "no.onnx" in wrong.record.problems[0].where
    assert usage.record.status is TaskStatus.INVALID and "--no-such-flag" in usage.record.problems[0].what
    for ended in (done, plain):
        assert str(scratch) not in str(ended.record.to_json())
