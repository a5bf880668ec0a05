"""Tasks on a Ray of two nodes give the same records as the local pool, despite failing workers, files and machines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.conftest import Nodes
from tests.converter.batch.workers import NAME, left_in, pid_in, task, write_worker
from tests.converter.model.builders import rich_model, save_external
from tests.converter.models import inverse, relu
from tests.processes import has_ended
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch import fleet
from trtsmith.converter.batch.child import ChildSetup
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.fleet import RayExecutor
from trtsmith.converter.batch.local import LocalExecutor
from trtsmith.converter.batch.ray_connection import RayConnection
from trtsmith.converter.batch.task import BatchTask, Event, Needs, TaskEnd, TaskStatus

KILLER = "killing_batch_worker"
"""A worker whose words `kill-host=FILE` kill the Ray worker process that has it, as long as there is no such file."""

KILLING = f"""
import json, os, signal, sys, time
from pathlib import Path
from trtsmith.converter.engine.child.serve import serve
import {NAME}

def work(request, events, log_path):
    for word in json.loads(request)["words"]:
        do, _, value = word.partition("=")
        if do == "kill-host" and not Path(value).exists():
            Path(value + ".tries").open("a").write("x")
            if value.endswith("once"):
                Path(value).touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
    return {NAME}.work(request, events, log_path)

if __name__ == "__main__":
    serve(sys.argv[1:], work)
"""


class Runs:
    """Executors on the nodes, with workers that do what words say. home: an empty folder."""

    def __init__(self, nodes: Nodes, home: Path) -> None:
        self.nodes, self.home = nodes, home
        self.events: list[Event] = []
        write_worker(home)
        (home / f"{KILLER}.py").write_text(KILLING)
        self.out = home / "out"
        self.out.mkdir()

    def executor(self, worker: str = NAME) -> RayExecutor:
        setup = ChildSetup(worker, [self.home], self.home)
        return RayExecutor(self.nodes.address, self.out, setup, FileHashes())

    def run(self, tasks: Sequence[BatchTask], worker: str = NAME) -> dict[str, TaskEnd]:
        with self.executor(worker) as executor:
            ended = list(executor.run(tasks, self.events.append))
        assert sorted(one.task.name for one in ended) == sorted(one.name for one in tasks)
        return {one.record.name: one for one in ended}


@pytest.fixture(scope="module")
def joined(nodes: Nodes) -> Iterator[Nodes]:
    """Nodes that this process has joined: executors use that and keep it, and Ray's workers, too."""
    with RayConnection(nodes.address):
        yield nodes


@pytest.fixture
def runs(joined: Nodes, tmp_path: Path) -> Runs:
    return Runs(joined, tmp_path)


def soon(done: Any, limit_s: float = 120.0) -> bool:
    end = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def comparable(ended: TaskEnd) -> dict[str, Any]:
    """All of a record but where and when it was made."""
    document = ended.record.to_json()
    for name in ("place", "began", "peak_mib"):
        del document[name]
    found: dict[str, Any] = without_seconds(document)
    return found


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_seconds(one) for key, one in value.items() if key != "seconds"}
    return [without_seconds(one) for one in value] if isinstance(value, (list, tuple)) else value


def test_a_cluster_stays_as_it_was(nodes: Nodes) -> None:
    for _ in range(2):
        with RayConnection(nodes.address) as connection:
            assert len(connection.ray.nodes()) == 2
            with RayConnection("auto") as same, RayConnection(nodes.address):
                assert same.ray.is_initialized()
            assert connection.ray.is_initialized()
            with (
                pytest.raises(UsageError, match="already connected to a Ray cluster"),
                RayConnection("local"),
            ):
                pass
        assert not connection.ray.is_initialized()


def test_real_conversions_are_those_of_the_local_pool(nodes: Nodes, tmp_path: Path) -> None:
    tasks = [
        replace(task(name, source=str(path)), files=(path,))
        for name, path in (
            ("relu", relu(tmp_path / "relu.onnx")),
            ("inverse", inverse(tmp_path / "inverse.onnx")),
        )
    ]
    tasks.append(task("gone", source=str(tmp_path / "gone.onnx")))
    with (
        RayExecutor(nodes.address, tmp_path, ChildSetup(), FileHashes()) as there_,
        LocalExecutor(tmp_path, ChildSetup(), jobs=1) as pool,
    ):
        there = {ended.record.name: ended for ended in there_.run(tasks, lambda event: None)}
        here = {ended.record.name: ended for ended in pool.run(tasks, lambda event: None)}
    assert [there[name].record.status for name in ("relu", "inverse", "gone")] == [
        TaskStatus.AGREE, TaskStatus.AGREE, TaskStatus.INVALID
    ]  # fmt: skip
    for name, ended in here.items():
        mine, other = comparable(there[name]), comparable(ended)
        assert mine.pop("files").keys() == other.pop("files").keys()  # an engine is not the same twice
        assert mine == other


def test_records_and_files_are_those_of_the_local_pool(runs: Runs) -> None:
    tasks = [
        task("net/a", "unverified"), task("net/b"), task("refused", "code=1"), task("unsound", "code=2"),
        task("other", "code=3"), task("crash", "segfault"), task("mistake", "mistake"),
        task("late", "hang", needs=Needs(timeout_s=1)), task("big", "eat=300", needs=Needs(memory_mib=200)),
    ]  # fmt: skip
    there = runs.run(tasks)
    with LocalExecutor(runs.out, ChildSetup(NAME, [runs.home]), jobs=2) as pool:
        here = {ended.record.name: ended for ended in pool.run(tasks, lambda event: None)}
    for name, ended in here.items():
        mine, other = comparable(there[name]), comparable(ended)
        if name == "big":  # its message says how much there was
            assert "MiB together" in mine.pop("problems")[0]["what"] and other.pop("problems")
        assert mine == other
        assert (there[name].folder is None) == (ended.folder is None)
        if ended.folder is not None and (other_folder := there[name].folder) is not None:
            assert left_in(other_folder) == left_in(ended.folder) == ["model.plan"]
            assert (other_folder / "model.plan").read_bytes() == (ended.folder / "model.plan").read_bytes()
            assert runs.out in other_folder.parents
    assert soon(lambda: not runs.nodes.left())


def test_a_model_with_external_data_is_converted_where_it_was_sent(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, so that one content lies in two views at once or after each other. /proc/self/cwd: as below."""
    (tmp_path / "nets").mkdir()
    save_external(rich_model(), tmp_path / "nets/net.onnx")
    monkeypatch.chdir(tmp_path)
    files = tuple(Path("/proc/self/cwd/nets") / name for name in ("net.onnx", "weights.bin"))
    branch = ("--freeze", "condition=true")  # of generated inputs, one alone would be taken and compared
    one = replace(task("net", *branch, source=str(files[0])), files=files)
    with RayExecutor(nodes.address, tmp_path, ChildSetup(), FileHashes()) as there_:
        done = list(there_.run([one, replace(one, name="again")], lambda event: None))
    assert [ended.record.status for ended in done] == [TaskStatus.AGREE] * 2, done[0].record.problems


def test_files_that_a_machine_lacks_are_sent_to_it_and_lie_as_they_did(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc/self/cwd is another folder for every process: what lies there is not there for the nodes."""
    (runs.home / "models/data").mkdir(parents=True)
    (runs.home / "models/net.onnx").write_bytes(b"graph")
    (runs.home / "models/data/weights").write_bytes(os.urandom(40 << 20))
    (runs.home / "models/empty").touch()
    monkeypatch.chdir(runs.home)
    there = Path("/proc/self/cwd/models")
    (runs.home / "looking_worker.py").write_text(LOOKING)
    files = (there / "net.onnx", there / "data/weights", there / "empty")
    one = replace(
        task("net", f"--inputs=x:{there}/data/weights", "--ops", there / "data", source=str(files[0])),
        files=files,
    )
    tasks = [one, replace(one, name="again"), replace(one, name="third")]
    done = runs.run(tasks, worker="looking_worker")
    for ended in done.values():
        assert ended.record.status is TaskStatus.AGREE, ended.record
        assert ended.record.command == ("trtsmith", "convert", str(files[0]), "-o", "model.plan", *one.words)
        assert ended.record.attempts == 1
        report = ended.record.report
        assert report is not None and report["looked"] == [str(path) for path in sorted(files)]
        assert ended.folder is not None
        assert (ended.folder / "page.html").read_text() == f"<p>{files[0]}</p>"
        assert left_in(ended.folder) == ["none", "page.html", "weights"] == sorted(ended.record.files)
        copied = (ended.folder / "weights").read_bytes()
        assert copied == (runs.home / "models/data/weights").read_bytes()
    assert soon(lambda: not runs.nodes.left())


LOOKING = """
import json, os, sys
from pathlib import Path
from trtsmith.converter.engine.child.serve import serve

def work(request, events, log_path):
    asked = json.loads(request)
    words = asked["words"]
    source, weights, folder = Path(asked["source"]), Path(words[0].partition(":")[2]), Path(words[2])
    assert source.read_bytes() == b"graph" and source.parent / "data" == weights.parent == folder, asked
    assert str(source).endswith("/proc/self/cwd/models/net.onnx") and not str(source).startswith("/proc")
    assert not os.access(weights, os.W_OK) or os.getuid() == 0
    (Path(asked["folder"]) / "weights").write_bytes(weights.read_bytes())
    (Path(asked["folder"]) / "none").touch()
    (Path(asked["folder"]) / "page.html").write_text(f"<p>{source}</p>")
    looked = sorted(str(path) for path in source.parent.rglob("*") if path.is_file())
    return {"exit_code": 0, "problems": [], "death": None, "warnings": [], "bench": None, "tune": None, "seconds": {},
            "versions": {},
            "report": {"converted": True, "verdict": {}, "engine": {"flavour": "tensorrt_rtx"}, "looked": looked}}

serve(sys.argv[1:], work)
"""


def test_a_task_whose_worker_is_killed_is_begun_again(runs: Runs) -> None:
    once = runs.home / "once"
    done = runs.run([task("a", f"kill-host={once}"), task("b"), task("c", "code=1")], worker=KILLER)
    assert [(done[name].record.status, done[name].record.attempts) for name in "abc"] == [
        (TaskStatus.AGREE, 2), (TaskStatus.AGREE, 1), (TaskStatus.REFUSED, 1)
    ]  # fmt: skip
    assert "begun again: WorkerCrashedError" in {event.text for event in runs.events if event.task == "a"}


def test_a_task_that_is_lost_again_and_again_says_what_ray_said(runs: Runs) -> None:
    always = runs.home / "always"
    ended = runs.run([task("a", f"kill-host={always}")], worker=KILLER)["a"]
    assert (ended.record.status, ended.record.attempts, ended.folder) == (TaskStatus.LOST, 3, None)
    assert (runs.home / "always.tries").read_text() == "xxx"
    (problem,) = ended.record.problems
    assert "lost 3 times" in problem.what and "worker died" in problem.what
    assert ended.record.command[1] == "convert"


def test_stop_ends_what_runs_with_all_its_processes(runs: Runs) -> None:
    begun, child = runs.home / "begun", runs.home / "child"
    tasks = [
        task("a"),
        task("b", f"child={child}", f"begun={begun}", "hang"),
        *(task(f"c{i}", "hang") for i in range(9)),
    ]
    with runs.executor() as executor:
        iterator = executor.run(tasks, runs.events.append)
        first = next(iterator)
        stopper = threading.Thread(target=lambda: (soon(begun.exists), executor.stop()))
        stopper.start()
        ended = {one.record.name: one for one in (first, *iterator)}
        stopper.join()
        assert first.record.name == "a" and first.record.status is TaskStatus.AGREE
        assert ended["b"].record.status is TaskStatus.CANCELLED and ended["b"].folder is None
        assert ended.keys() == {one.name for one in tasks}
        assert has_ended(pid_in(begun)) and has_ended(pid_in(child))
    assert soon(lambda: not runs.nodes.left())
    assert [path for path in runs.out.iterdir() if path != first.folder] == []


def test_an_executor_that_is_left_in_the_middle_leaves_nothing(runs: Runs) -> None:
    begun = runs.home / "begun"
    with runs.executor() as executor:
        ended = executor.run([task("a"), task("b", f"begun={begun}", "hang")], runs.events.append)
        assert next(ended).record.name == "a"
        assert soon(begun.exists)
    assert has_ended(pid_in(begun))
    assert soon(lambda: not runs.nodes.left())


def test_a_file_that_cannot_be_read_is_that_tasks_problem(runs: Runs) -> None:
    lacking = replace(task("a", source="/gone.onnx"), files=(Path("/gone.onnx"),))
    done = runs.run([lacking, task("b")])
    assert done["b"].record.status is TaskStatus.AGREE
    assert done["a"].record.status is TaskStatus.INVALID
    assert "/gone.onnx" in done["a"].record.problems[0].where


def test_what_no_machine_has_is_said_before_anything_runs(runs: Runs) -> None:
    count = runs.home / "count"
    tasks = [
        task("fine", f"count={count}"),
        task("gpu/a", "--flavour", "tensorrt", "--target", "sm89"),
        task("gpu/b", "--verify=engine"),
        task("large", needs=Needs(memory_mib=1 << 30)),
        task("named", needs=Needs(gpu="H100")),
    ]
    with runs.executor() as executor, pytest.raises(UsageError) as caught:
        list(executor.run(tasks, runs.events.append))
    said = str(caught.value)
    assert "a GPU of compute capability sm89" in said and "no GPU" in said and "a GPU H100" in said
    assert "gpu/b: --verify engine runs the engine" in said
    assert "1073741824 MiB" in said and "large" in said
    assert len(caught.value.problems) == 4 and not count.exists()
    assert executor.machine_of(tasks[1]) is None
    machine = executor.machine_of(tasks[0])
    assert machine is not None and machine.gpu is None and machine.rules


def test_a_gpu_is_asked_for_by_rays_name(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = runs.nodes.cluster
    node = cluster.add_node(
        num_cpus=1, num_gpus=1, resources={"accelerator_type:L4": 1}, object_store_memory=80 << 20
    )
    try:
        gpu = task("gpu", "--verify", "engine", f"begun={runs.home / 'gpu'}")
        with runs.executor() as executor:
            with pytest.raises(UsageError, match="a GPU of compute capability sm90"):
                executor.run([task("other", "--flavour=tensorrt", "--target=sm90")], runs.events.append)
            done = {
                ended.record.name: ended for ended in executor.run([gpu, task("cpu")], runs.events.append)
            }
        assert done["gpu"].record.status is TaskStatus.AGREE and done["gpu"].record.place["gpu"] == "L4"
        assert done["cpu"].record.place["gpu"] == ""
        monkeypatch.setattr(fleet, "PATIENCE_S", 1.0)
        monkeypatch.setattr(fleet, "_NODES_S", 0.5)
        with runs.executor() as executor:
            ended = executor.run([task("first"), *(replace(gpu, name=f"gpu-{i}") for i in range(9))], print)
            assert next(ended).record.status is TaskStatus.AGREE
            cluster.remove_node(node, allow_graceful=False)
            late = [one.record for one in ended]
        lost = [record for record in late if record.status is TaskStatus.LOST]
        assert len(late) == 9 and lost and "no machine is left" in lost[-1].problems[0].what
    finally:
        if node in cluster.list_all_nodes():
            cluster.remove_node(node)


def test_a_machine_with_other_operators_is_refused_and_left_out_where_it_comes_later(
    runs: Runs, tmp_path: Path
) -> None:
    operators = tmp_path / "mine.py"
    operators.write_text("OPERATORS = ()\n")
    cluster, other = runs.nodes.cluster, {"TRTSMITH_OPS": str(operators)}
    tasks = [task(f"t{i}", f"wait={tmp_path / 'go'}", needs=Needs(timeout_s=60)) for i in range(8)]
    node = None

    def hear(event: Event) -> None:
        runs.events.append(event)
        if "left out" in event.text:  # until then all tasks wait
            (tmp_path / "go").touch()

    try:
        with runs.executor() as executor:
            ended = executor.run(tasks, hear)
            node = cluster.add_node(num_cpus=4, object_store_memory=80 << 20, env_vars=other)
            found = [one.record for one in ended]
            assert {one.status for one in found} == {TaskStatus.AGREE}, [one.problems for one in found]
        with pytest.raises(UsageError) as caught, runs.executor():
            pass
        (problem,) = caught.value.problems
        assert "trtsmith differs from the one on this machine: operators of TRTSMITH_OPS" in problem.what
        assert node.node_id[:8] in problem.where
        left_out = [event for event in runs.events if "came later and is left out" in event.text]
        assert len(left_out) == 1
    finally:
        if node is not None:
            cluster.remove_node(node)
