"""Runs a batch on three local Ray nodes while nodes, workers, builders and the driver are killed, and says what is wrong.

    python scripts/batchbench/chaos.py                  # 60 tasks and 3 real conversions
    python scripts/batchbench/chaos.py --tasks 1000 --real 10

After a part of the tasks a node is removed, then a Ray worker is killed, then the driver, with SIGKILL; another node comes,
and the driver is started again. Some tasks crash the process that converts, some are refused, one kills the Ray worker that
it has. In the end every task has to have ended once with the right result, what was done before has to be kept, and nothing
may be left: no process, no temporary folder. Exit code 1 where that is not so. Linux, with Ray (the extra `fleet`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from batchbench.chaos_driver import KILLS_HOST, chaos_tasks  # noqa: E402
from batchbench.chaos_log import Begin, begun_needlessly, read_begins  # noqa: E402
from batchbench.chaos_worker import engine_of  # noqa: E402
from batchbench.local_nodes import STORE, environment, local_nodes  # noqa: E402
from trtsmith.converter.batch.task import ENGINE  # noqa: E402
from trtsmith.converter.batch.task_record import RECORD, TaskRecord, TaskStatus  # noqa: E402

MARK = "TRTSMITH_CHAOS"
"""A variable in the environment of everything that is started: its value is the home of this batch."""

PATIENCE_S = 300.0
"""For each step, on a machine that is busy."""


def until(done: Callable[[], bool], what: str) -> None:
    """Wait. TimeoutError names what did not come."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


def processes_of(home: Path) -> list[psutil.Process]:
    """Those that run with the mark of this batch, but for this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(home):
                found.append(process)
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


class Chaos:
    """One batch. home: an empty folder with a short path."""

    def __init__(self, home: Path, tasks: int, real: int, say: Callable[[str], None] = print) -> None:
        self._home, self._count, self._real, self._say = home, tasks, real, say
        self._killed: set[int] = set()  # Ray workers, and a node's raylet
        self._tasks = {task.name: (task, status) for task, status in chaos_tasks(home, tasks, real)}
        (home / "models").mkdir()
        (home / "tmp").mkdir()
        for task, _ in self._tasks.values():
            Path(task.source).write_bytes(task.model.encode() * 1000)
        if real:
            write_relu(home / "models/real.onnx")

    def run(self) -> list[str]:
        """What is wrong in the end; nothing, if all is as it has to be."""
        with environment(**{MARK: str(self._home)}), local_nodes(3, self._home / "tmp") as cluster:
            address = cluster.address
            with self._driver(address) as driver:
                self._wait_for(0.15, driver)
                node = cluster.list_all_nodes()[-1]
                self._killed.add(node.all_processes["raylet"][0].process.pid)
                cluster.remove_node(node, allow_graceful=False)
                self._say("a node was removed")
                self._wait_for(0.3, driver)
                self._kill_worker()
                self._wait_for(0.5, driver)
                driver.send_signal(signal.SIGKILL)
                driver.wait()
            kept = self._settled()
            jobs = {begin.job for begin in self._began()}
            self._say(f"the driver was killed; {len(kept)} tasks are done")
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
            with self._driver(address) as driver:
                code = driver.wait(PATIENCE_S)
            wrong: list[str] = [] if code == 1 else [f"the driver ended with {code}: {self._said()}"]
            wrong += [*self._wrong_results(), *self._needless()]
            again = {begin.task for begin in self._began() if begin.job not in jobs} & kept
            wrong += [f"{name} was done, and was done again" for name in sorted(again)]
            wrong += self._left("trtsmith-*", "while the cluster is still there")
            wrong += [f"still there: {pid}" for pid in self._converting()]
        return [*wrong, *self._left("trtsmith-*", "at the end"), *self._left_processes()]

    @contextlib.contextmanager
    def _driver(self, address: str) -> Iterator[subprocess.Popen[bytes]]:
        words = [address, str(self._home), str(self._count), str(self._real)]
        with open(self._home / "driver.log", "ab") as log:
            driver = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("chaos_driver.py")), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield driver
        finally:
            driver.kill()
            driver.wait()

    def _wait_for(self, share: float, driver: subprocess.Popen[bytes]) -> None:
        wanted = int(share * len(self._tasks))

        def done() -> bool:
            if driver.poll() is not None:
                raise RuntimeError(f"the driver ended with {driver.returncode}: {self._said()}")
            return len(self._records()) >= wanted

        until(done, f"{wanted} tasks that have ended; {self._said()}")

    def _kill_worker(self) -> None:
        """One that has a task, from outside."""

        def kill() -> bool:
            for process in processes_of(self._home):
                with contextlib.suppress(psutil.Error):
                    if " ".join(process.cmdline()).startswith("ray::trtsmith"):
                        process.kill()
                        self._killed.add(process.pid)
                        return True
            return False

        until(kill, "a Ray worker with a task")
        self._say("a worker was killed")

    def _records(self) -> dict[str, TaskRecord]:
        found = {}
        for folder, _, files in os.walk(self._home / "out"):  # which goes on where a folder is gone meanwhile
            if RECORD not in files:
                continue
            with contextlib.suppress(FileNotFoundError):
                record = TaskRecord.from_json(json.loads(Path(folder, RECORD).read_text()))
                found[record.name] = record
        return {name: record for name, record in found.items() if name in self._tasks}

    def _settled(self) -> set[str]:
        return {name for name, record in self._records().items() if record.status.settled}

    def _began(self) -> Sequence[Begin]:
        return read_begins(self._home / "began.log")

    def _wrong_results(self) -> Iterator[str]:
        records = self._records()
        for name, (task, status) in self._tasks.items():
            record = records.get(name)
            if record is None:
                yield f"{name} is lost"
            elif record.status is not status:
                yield f"{name} is {record.status.value}, not {status.value}: {record.problems}"
            elif status is TaskStatus.AGREE and "real" not in name:
                engine = self._home / "out" / name / ENGINE
                if engine.read_bytes() != engine_of(Path(task.source)):
                    yield f"{name} has the engine of another model"
        if self._count > KILLS_HOST and not (self._home / "killed").exists():
            yield "no task killed its host"

    def _needless(self) -> Iterator[str]:
        """What nothing had struck, and a crash or a refusal was that, is not begun again."""
        suicide = self._home / "killed"
        killed = self._killed | ({int(suicide.read_text())} if suicide.exists() else set())
        for name, count in begun_needlessly(self._began(), killed).items():
            yield f"{name} was begun {count} times, which does not help"

    def _converting(self) -> Sequence[int]:
        """Processes that had tasks and are still there: the driver has ended, and they had their time."""
        pids = {begin.pid for begin in self._began()}
        with contextlib.suppress(TimeoutError):
            _soon(lambda: not any(psutil.pid_exists(pid) for pid in pids))
        return [pid for pid in pids if psutil.pid_exists(pid)]

    def _left(self, pattern: str, when: str) -> Sequence[str]:
        folder = self._home / "tmp"
        with contextlib.suppress(TimeoutError):
            _soon(lambda: not any(folder.glob(pattern)))
        return [f"left {when}: {path}" for path in folder.glob(pattern)]

    def _left_processes(self) -> Sequence[str]:
        with contextlib.suppress(TimeoutError):
            _soon(lambda: not processes_of(self._home))
        return [f"still running: {' '.join(process.cmdline())}" for process in processes_of(self._home)]

    def _said(self) -> str:
        return (self._home / "driver.log").read_text()[-2000:]


def _soon(done: Callable[[], bool], limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def write_relu(path: Path) -> Path:
    """A model of one node."""
    import onnx
    from onnx import TensorProto
    from onnx import helper as oh

    ends = [oh.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in "xy"]
    graph = oh.make_graph([oh.make_node("Relu", ["x"], ["y"])], "graph", ends[:1], ends[1:])
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9), path)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--real", type=int, default=3, help="conversions of a small model, by TensorRT-RTX")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
    started = time.monotonic()
    try:
        wrong = Chaos(home, options.tasks, options.real).run()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print("\n".join(wrong) or f"all is as it has to be, after {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
