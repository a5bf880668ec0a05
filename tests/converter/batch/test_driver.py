"""A whole batch: what is kept, cached and run, and what remains after an interruption."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.driving import MACHINE, Told, drive, known
from tests.converter.batch.workers import NAME, left_in, pid_in, task, write_worker
from tests.processes import ROOT, checkout_environment, has_ended
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.child import ChildSetup
from trtsmith.converter.batch.command_words import gpu_demand
from trtsmith.converter.batch.driver import BatchRequest, run_batch
from trtsmith.converter.batch.local import LocalExecutor
from trtsmith.converter.batch.task import RECORD, BatchTask, Needs, TaskExecutor, TaskRecord, TaskStatus
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.importers.problem import Problem

PAGES = {"results.json", "junit.xml", "index.html", ".lock"}


def sources(home: Path, *arguments: Any, **more: Any) -> list[str]:
    return list(drive(home, *arguments, **more).sources.values())


def record_in(home: Path, name: str) -> TaskRecord:
    return TaskRecord.from_json((home / "out" / name / RECORD).read_text())


def test_every_task_has_its_folder_and_the_batch_its_pages(tmp_path: Path) -> None:
    told = Told()
    tasks = [known(tmp_path, "a/x"), known(tmp_path, "a/y", "code=3"), known(tmp_path, "b", "code=1")]
    result = drive(tmp_path, tasks, told=told)
    assert list(result.statuses.items()) == [
        ("a/x", TaskStatus.AGREE), ("a/y", TaskStatus.DISAGREE), ("b", TaskStatus.REFUSED)
    ]  # fmt: skip
    assert result.exit_code == 1 and not result.passed
    assert [record.name for record in result.records()] == ["a/x", "a/y", "b"]
    assert {*left_in(tmp_path / "out")} == {
        "a/x/model.plan", "a/x/record.json", "a/y/model.plan", "a/y/record.json", "b/record.json", *PAGES
    }  # fmt: skip
    assert record_in(tmp_path, "a/x").key
    document = json.loads((tmp_path / "out/results.json").read_text())
    assert [row["name"] for row in document["tasks"]] == ["a/x", "a/y", "b"]
    assert told.total == 3 and sorted(told.ends) == [
        ("a/x", "agree", "run"), ("a/y", "disagree", "run"), ("b", "refused", "run")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([], 0),
        (["code=3"], 3),
        (["code=4"], 4),
        (["code=4", "code=3"], 3),
        (["code=4", "code=1"], 1),
        (["code=1"], 1),
        (["code=2"], 1),
        (["segfault"], 1),
    ],
)
def test_exit_codes(tmp_path: Path, ends: list[str], code: int) -> None:
    others = [known(tmp_path, f"net{number}", end) for number, end in enumerate(ends)]
    assert drive(tmp_path, [known(tmp_path, "fine"), *others]).exit_code == code


def test_what_is_settled_is_kept_and_the_rest_done_again(tmp_path: Path) -> None:
    tasks = [
        known(tmp_path, name, *words)
        for name, *words in (["a"], ["b", "code=1"], ["c", "code=2"], ["d", "segfault"])
    ]
    assert sources(tmp_path, tasks) == ["run"] * 4
    assert sources(tmp_path, tasks) == ["kept", "kept", "run", "run"]
    assert sources(tmp_path, tasks, retry_failed=True) == ["kept", "run", "run", "run"]
    assert sources(tmp_path, [known(tmp_path, "a", "code=3"), *tasks[1:2]]) == [
        "run",
        "kept",
    ]  # other options


def test_a_result_that_is_not_as_it_was_is_done_again(tmp_path: Path) -> None:
    tasks = [known(tmp_path, name) for name in "abc"]
    drive(tmp_path, tasks)
    (tmp_path / "out/a/model.plan").write_text("other bytes")
    (tmp_path / "out/b/record.json").write_text("[]")
    assert sources(tmp_path, tasks) == ["run", "run", "kept"]


def test_a_model_that_is_another_now_is_converted_again(tmp_path: Path) -> None:
    one = known(tmp_path, "a")
    drive(tmp_path, [one], cache=True)
    Path(one.source).write_text("another model")
    assert sources(tmp_path, [one], cache=True) == ["run"]


def test_the_cache_gives_what_any_batch_has_done(tmp_path: Path) -> None:
    tasks = [known(tmp_path, "a"), known(tmp_path, "b", "code=1"), known(tmp_path, "c", "code=2")]
    drive(tmp_path, tasks, cache=True)
    os.rename(tmp_path / "out", tmp_path / "older")
    assert sources(tmp_path, tasks, cache=True) == ["cache", "cache", "run"]
    record = record_in(tmp_path, "a")
    engine, older = (tmp_path / name / "a/model.plan" for name in ("out", "older"))
    assert engine.stat().st_ino == older.stat().st_ino and record.name == "a"
    os.rename(tmp_path / "out", tmp_path / "second")
    assert sources(tmp_path, tasks, cache=True, retry_failed=True) == ["cache", "run", "run"]
    os.rename(tmp_path / "out", tmp_path / "third")
    assert sources(tmp_path, tasks, cache=False) == ["run"] * 3


def test_a_cache_that_was_tampered_with_is_not_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [known(tmp_path, "a")]
    drive(tmp_path, tasks, cache=True)
    engine = (tmp_path / "out/a/model.plan").read_bytes()
    os.rename(tmp_path / "out", tmp_path / "older")
    for blob in (tmp_path / "cache/objects").rglob("*"):
        if blob.is_file():
            blob.chmod(0o644)
            blob.write_bytes(b"X" * blob.stat().st_size)
    assert sources(tmp_path, tasks, cache=True) == ["run"]
    assert (tmp_path / "out/a/model.plan").read_bytes() == engine
    assert "damaged" in capsys.readouterr().out


def test_tasks_that_are_the_same_are_done_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("unverified", f"count={log}")
    tasks = [
        known(tmp_path, "a/x", *words),
        known(tmp_path, "a/y", *words),
        known(tmp_path, "a/z", *words, "code=2"),
    ]
    assert sources(tmp_path, [*tasks, known(tmp_path, "a/w", *words, "code=2")], cache=True) == [
        "run",
        "cache",
        "run",
        "run",
    ]
    assert sorted(log.read_text().split()) == ["a/w", "a/x", "a/z"]
    assert record_in(tmp_path, "a/y").name == "a/y" and record_in(tmp_path, "a/y").variant == {"target": "y"}


def test_a_task_that_cannot_be_hashed_is_done_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        assert sources(tmp_path, [task("a")], cache=True) == ["run"]
    assert record_in(tmp_path, "a").key == ""


def test_tasks_that_are_left_out_stay_in_the_pages(tmp_path: Path) -> None:
    tasks = [known(tmp_path, "a"), known(tmp_path, "b")]
    drive(tmp_path, tasks)
    drive(tmp_path, tasks, only=("a",))
    document = json.loads((tmp_path / "out/results.json").read_text())
    assert [row["name"] for row in document["tasks"]] == ["a", "b"]


def test_a_model_that_gets_variants_leaves_no_older_result_behind(tmp_path: Path) -> None:
    drive(tmp_path, [known(tmp_path, "a")])
    drive(tmp_path, [known(tmp_path, "a/x")])
    assert {*left_in(tmp_path / "out")} == {"a/x/model.plan", "a/x/record.json", *PAGES}


def test_a_model_that_has_no_variants_any_more_takes_their_place(tmp_path: Path) -> None:
    drive(tmp_path, [known(tmp_path, "a/x"), known(tmp_path, "a/y"), known(tmp_path, "b/x")])
    drive(tmp_path, [known(tmp_path, "a"), known(tmp_path, "b/x")])
    assert left_in(tmp_path / "out/a") == ["model.plan", RECORD]
    assert record_in(tmp_path, "a").name == "a" and record_in(tmp_path, "b/x").name == "b/x"


def test_variants_with_something_of_the_users_beside_them_stay(tmp_path: Path) -> None:
    drive(tmp_path, [known(tmp_path, "a/x")])
    (tmp_path / "out/a/notes").write_text("mine")
    with pytest.raises(UsageError, match="has files that no batch wrote"):
        drive(tmp_path, [known(tmp_path, "a")])
    assert (tmp_path / "out/a/x" / RECORD).exists() and (tmp_path / "out/a/notes").read_text() == "mine"


def test_a_record_that_somebody_wrote_removes_nothing_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    drive(tmp_path, [known(tmp_path, "a")])
    path = tmp_path / "out/a/record.json"
    document = json.loads(path.read_text())
    for name in ("../../thesis.txt", str(tmp_path / "thesis.txt")):
        document["files"][name] = {"sha256": "", "bytes": 0}
    path.write_text(json.dumps(document))
    drive(tmp_path, [known(tmp_path, "a/x")])
    assert (tmp_path / "thesis.txt").exists() and not path.exists()


def test_a_listener_whose_reader_is_gone_ends_the_batch_in_order(tmp_path: Path) -> None:
    class Gone(Told):
        def ended(self, record: TaskRecord, source: str) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    with pytest.raises(BrokenPipeError):
        drive(tmp_path, [known(tmp_path, "a"), known(tmp_path, "b")], told=Gone())
    assert record_in(tmp_path, "a").status is TaskStatus.AGREE and not (tmp_path / "out/.work").exists()


def test_nothing_of_the_users_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/.lock").touch()
    (tmp_path / "out/a/thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="has files that no batch wrote"):
        drive(tmp_path, [known(tmp_path, "a")])
    assert left_in(tmp_path / "out/a") == ["thesis.txt"]


def test_a_folder_of_other_files_gets_no_results(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/b.onnx").write_text("mine")
    with pytest.raises(UsageError, match="no batch wrote results into it") as caught:
        drive(tmp_path, [known(tmp_path, "a")])
    assert left_in(tmp_path / "out") == ["b.onnx"]
    assert caught.value.problems[0].fix.endswith(f"-o {tmp_path / 'out'}-results")


def test_a_copy_of_results_is_a_folder_of_results(tmp_path: Path) -> None:
    drive(tmp_path, [known(tmp_path, "a")])
    (tmp_path / "out/.lock").unlink()
    assert sources(tmp_path, [known(tmp_path, "a")]) == ["kept"]


@pytest.mark.parametrize("name", ["../a", "/tmp/a", ".work", "a/.lock", "a\0b"])
def test_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name cannot be a folder name"):
        drive(tmp_path, [task(name)])


def test_a_task_for_a_gpu_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    tuned = replace(known(tmp_path, "c"), tune=())
    result = drive(tmp_path, [known(tmp_path, "a", needs=Needs(gpu="H100")), known(tmp_path, "b"), tuned])
    assert result.statuses == {"a": TaskStatus.INVALID, "b": TaskStatus.AGREE, "c": TaskStatus.INVALID}
    (problem,), (search,) = (record_in(tmp_path, name).problems for name in "ac")
    assert problem.what == "the task needs the GPU H100; this machine has no GPU" and "--on" in problem.fix
    assert problem.where == "it asks for the GPU H100"
    assert (
        search.what == "the task needs a GPU; this machine has no GPU"
        and search.where == "tune times engines"
    )


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        drive(tmp_path, [known(tmp_path, "a")])


def test_a_batch_that_cannot_begin_leaves_the_pages_as_they_are(tmp_path: Path) -> None:
    tasks = [known(tmp_path, name) for name in "ab"]
    drive(tmp_path, tasks)
    before = (tmp_path / "out/results.json").read_bytes()

    def no_cluster(scratch: Path) -> TaskExecutor:
        raise UsageError(Problem("there is no cluster", "--on", "one", "start it"))

    with pytest.raises(UsageError, match="no cluster"):
        run_batch(BatchRequest(tasks, tmp_path / "out", executor=no_cluster), Told(), print)
    assert (tmp_path / "out/results.json").read_bytes() == before
    assert not (tmp_path / "out/.work").exists()


def fail_with_full_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The record of one task cannot be written to its end."""
    write = Path.write_text

    def full(self: Path, text: str, **options: Any) -> int:
        if self.name != RECORD or json.loads(text)["name"] != name:
            return write(self, text, **options)
        write(self, text[:100], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_text", full)


def test_a_full_disk_ends_the_batch_and_what_is_done_stays(tmp_path: Path) -> None:
    tasks = [known(tmp_path, name) for name in "abc"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        fail_with_full_disk(monkeypatch, "b")
        with pytest.raises(UsageError, match="No space left"):
            drive(tmp_path, tasks)
    assert {*left_in(tmp_path / "out")} == {"a/model.plan", "a/record.json", *PAGES}
    document = json.loads((tmp_path / "out/results.json").read_text())
    assert [row["name"] for row in document["tasks"]] == ["a"] and document["summary"]["planned"] == 3
    assert sources(tmp_path, tasks) == ["kept", "run", "run"]


def test_a_full_disk_leaves_an_older_result_as_it_was(tmp_path: Path) -> None:
    drive(tmp_path, [known(tmp_path, "a")])
    before = record_in(tmp_path, "a")
    with pytest.MonkeyPatch.context() as monkeypatch:
        fail_with_full_disk(monkeypatch, "a")
        with pytest.raises(UsageError, match="No space left"):
            drive(tmp_path, [known(tmp_path, "a", "code=3")])
    assert record_in(tmp_path, "a") == before and sources(tmp_path, [known(tmp_path, "a")]) == ["kept"]


def test_a_full_disk_is_said_of_the_pages_too(tmp_path: Path) -> None:
    (tmp_path / "out/index.html").mkdir(parents=True)
    (tmp_path / "out/index.html/mine").write_text("")
    (tmp_path / "out/.lock").touch()
    with pytest.raises(UsageError, match="the folder of the batch cannot be written") as caught:
        drive(tmp_path, [known(tmp_path, "a")])
    (problem,) = caught.value.problems
    assert "index.html" in problem.where and "name another" in problem.fix
    assert not [name for name in left_in(tmp_path / "out") if ".trtsmith-" in name]


# --- as a program of its own ---


def start(home: Path, tasks: Sequence[Sequence[object]]) -> subprocess.Popen[str]:
    words = json.dumps([list(map(str, words)) for words in tasks])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.converter.batch.driving", str(home), words],
        cwd=ROOT,
        env=checkout_environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def hanging(home: Path) -> tuple[subprocess.Popen[str], Path, Path]:
    """A driver whose first task is done and whose second hangs; the files that name its processes."""
    child, begun = home / "child", home / "begun"
    driver = start(home, [["a"], ["b", f"child={child}", f"begun={begun}", "hang"], ["c"]])
    until(lambda: has_content(begun) and (home / "out/a/record.json").exists(), driver)
    return driver, child, begun


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def has_content(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("default_signals")
def test_a_signal_ends_it_in_order(tmp_path: Path, number: int) -> None:
    driver, child, begun = hanging(tmp_path)
    driver.send_signal(number)
    error = driver.communicate()[1]
    assert (driver.returncode, error) == (128 + number, "")
    assert has_ended(pid_in(child)) and has_ended(pid_in(begun))
    assert {*left_in(tmp_path / "out")} == {"a/model.plan", "a/record.json", *PAGES}
    document = json.loads((tmp_path / "out/results.json").read_text())
    statuses = {row["name"]: row["status"] for row in document["tasks"]}
    assert statuses == {"a": "agree", "b": "cancelled", "c": "cancelled"}
    result = drive(tmp_path, [known(tmp_path, name) for name in "abc"])
    assert result.passed and list(result.sources.values()) == ["kept", "run", "run"]


def test_a_driver_that_is_killed_leaves_no_process_and_nothing_half_written(tmp_path: Path) -> None:
    driver, child, begun = hanging(tmp_path)
    driver.kill()
    driver.wait()
    assert has_ended(pid_in(begun))
    os.kill(pid_in(child), signal.SIGKILL)  # it is no worker of ours, which would die with its parent
    assert any(name.startswith(".work/") for name in left_in(tmp_path / "out"))
    result = drive(tmp_path, [known(tmp_path, name) for name in "abc"])
    assert result.passed and list(result.sources.values()) == ["kept", "run", "run"]
    assert not any(name.startswith(".work") for name in os.listdir(tmp_path / "out"))


def test_a_second_batch_in_the_folder_is_told_of_the_first(tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    driver = start(tmp_path, [["a", f"begun={begun}", f"wait={go_on}"]])
    until(lambda: has_content(begun), driver)
    try:
        with pytest.raises(
            UsageError, match=rf"another batch is writing .*: process {driver.pid} on "
        ) as caught:
            drive(tmp_path, [known(tmp_path, "b")])
    finally:
        go_on.touch()
    assert "-o" in caught.value.problems[0].fix
    driver.communicate()
    assert driver.returncode == 0
    assert drive(tmp_path, [known(tmp_path, "b")]).passed


@pytest.mark.parametrize("made", ["link", "hard link", "pipe"])
def test_the_lock_of_a_folder_is_a_file_of_its_own(made: str, tmp_path: Path) -> None:
    mine, lock = tmp_path / "mine", tmp_path / "out" / ".lock"
    mine.write_text("mine")
    lock.parent.mkdir()
    {
        "link": lambda: lock.symlink_to(mine),
        "hard link": lambda: os.link(mine, lock),
        "pipe": lambda: os.mkfifo(lock),
    }[made]()
    with pytest.raises(UsageError, match="the folder of the batch cannot be written"):
        drive(tmp_path, [known(tmp_path, "a")])
    assert mine.read_text() == "mine"


# --- the pool ---


def test_as_many_tasks_run_at_a_time_as_there_are_jobs(tmp_path: Path) -> None:
    """Each waits for the other: with one at a time neither would end."""
    tasks = [
        known(tmp_path, "a", f"begun={tmp_path / 'a'}", f"wait={tmp_path / 'b'}"),
        known(tmp_path, "b", f"begun={tmp_path / 'b'}", f"wait={tmp_path / 'a'}"),
    ]
    assert drive(tmp_path, tasks, jobs=2).passed


GPUS = [Gpu("NVIDIA H100 80GB HBM3", (9, 0)), Gpu("NVIDIA L4", (8, 9))]


def executor(home: Path, **options: Any) -> LocalExecutor:
    given = {"machine": MACHINE, "gpus": GPUS} | options
    return LocalExecutor(home, ChildSetup(NAME, [home]), **given)


def test_a_task_runs_on_the_gpu_that_it_builds_for(tmp_path: Path) -> None:
    def gpu_of(one: BatchTask) -> Gpu | None:
        facts = executor(tmp_path).machine_of(one)
        return None if facts is None else facts.gpu

    found = [
        gpu_of(task("a", "--target", target, needs=Needs(gpu="any")))
        for target in ("sm86,sm89", "sm75", "rtx3090,l4")
    ]
    assert found == [GPUS[1], GPUS[0], GPUS[1]]
    assert [gpu_of(task("a", needs=Needs(gpu=name))) for name in ("", "any", "L4")] == [None, *GPUS]
    assert executor(tmp_path).machine_of(task("a", needs=Needs(gpu="B200"))) is None


def test_a_task_sees_its_gpu_and_another_sees_none(tmp_path: Path) -> None:
    write_worker(tmp_path)
    tasks = [
        known(tmp_path, "plain", f"gpus={tmp_path / 'plain'}"),
        known(tmp_path, "some", f"gpus={tmp_path / 'some'}", needs=Needs(gpu="L4")),
    ]
    with executor(tmp_path) as pool:
        records = {ended.record.name: ended.record for ended in pool.run(tasks, lambda event: None)}
    assert [(tmp_path / name).read_text() for name in ("plain", "some")] == ["", "1"]
    assert records["plain"].place["gpu"] == "" and records["some"].place["gpu"] == "NVIDIA L4"


@pytest.mark.parametrize(
    ("words", "flavours", "needed"),
    [
        ((), {"tensorrt_rtx", "tensorrt"}, False),
        ((), {"tensorrt"}, True),
        (("--flavour", "tensorrt"), {"tensorrt_rtx", "tensorrt"}, True),
        (("--flavour", "tensorrt_rtx"), {"tensorrt"}, False),
        (("--verify=engine",), {"tensorrt_rtx"}, True),
        (("--verify", "graph"), {"tensorrt_rtx"}, False),
    ],
)
def test_who_needs_a_gpu(words: tuple[str, ...], flavours: set[str], needed: bool) -> None:
    assert (gpu_demand(task("a", *words), flavours) is not None) is needed
    assert gpu_demand(replace(task("a", *words), bench=()), flavours) is not None
    assert gpu_demand(replace(task("a", *words), tune=()), flavours) is not None


def test_a_task_that_takes_more_cores_than_there_are_runs_alone(tmp_path: Path) -> None:
    write_worker(tmp_path)
    log = tmp_path / "log"
    tasks = [
        task(name, f"count={log}", needs=Needs(cpus=cpus))
        for name, cpus in (("a", 999), ("b", 1), ("c", 999))
    ]
    with executor(tmp_path, jobs=3) as pool:
        assert [ended.record.name for ended in pool.run(tasks, lambda event: None)] == ["a", "b", "c"]
