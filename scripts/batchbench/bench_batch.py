"""Measures what `trtsmith batch` adds to the conversions themselves, and what its cache and its driver take.

    python scripts/batchbench/bench_batch.py                    # everything; JSON on stdout
    python scripts/batchbench/bench_batch.py --only bare,local  # parts, by their names below

    bare    small conversions in a multiprocessing.Pool whose processes call the same worker: nothing else is done
    local   the same conversions by `batch`, in processes of this machine
    ray     the same on a Ray of three local nodes with a core each; the time is counted once Ray is up
    hits    tasks of which all are in the cache, into a new folder; and again, with the folder as it is then
    memory  the most memory of the driver, for some and for many tasks with reports of 50 KB

Each measurement is a process of its own; bare, local and ray take turns. The folder has to be on a disk as it would be used.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import onnx  # noqa: E402

from batchbench.local_nodes import local_nodes  # noqa: E402
from trtsmith.converter.batch.cache.machine_facts import MachineFacts  # noqa: E402
from trtsmith.converter.batch.cache.store import Store  # noqa: E402
from trtsmith.converter.batch.driver import BatchOptions, run_batch  # noqa: E402
from trtsmith.converter.batch.execution import Event, Listener, TaskEnd, TaskExecutor  # noqa: E402
from trtsmith.converter.batch.run.local_pool import LocalPool  # noqa: E402
from trtsmith.converter.batch.task import BatchTask  # noqa: E402
from trtsmith.converter.batch.task_record import TaskRecord  # noqa: E402

PARTS = ("bare", "local", "ray", "hits", "memory")
NODES = 3

_MODEL = """<ir_version: 10, opset_import: ["" : 17]> g (float[{0},3,16,16] x) => (float[{0},3,16,16] y) {{
    a = Relu (x)
    y = Sigmoid (a)
}}"""


class Quiet:
    """A BatchListener."""

    def planned(self, total: int) -> None:
        """Nothing is shown."""

    def event(self, event: Event) -> None:
        """Nothing is shown."""

    def ended(self, record: TaskRecord, source: str) -> None:
        if not record.status.passed:
            raise RuntimeError(f"{record.name}: {record.problems}")


class TimedExecutor:
    """Another TaskExecutor, and how long its tasks took, with the driver's work for them."""

    def __init__(self, executor: TaskExecutor) -> None:
        self._executor = executor
        self.seconds = 0.0

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        return self._executor.machine_of(task)

    def stop(self) -> None:
        self._executor.stop()

    def __enter__(self) -> TaskExecutor:
        self._executor.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.__exit__(*error)

    def run(self, tasks: Sequence[BatchTask], listener: Listener) -> Iterator[TaskEnd]:
        started = time.perf_counter()
        yield from self._executor.run(tasks, listener)
        self.seconds += time.perf_counter() - started


def models(home: Path, count: int) -> list[BatchTask]:
    """Small models, each another one."""
    tasks = []
    (home / "models").mkdir(exist_ok=True)
    for number in range(count):
        path = home / "models" / f"net{number}.onnx"
        if not path.exists():
            onnx.save(onnx.parser.parse_model(_MODEL.format(number + 1)), path)
        tasks.append(BatchTask(path.stem, path.stem, str(path), (), (path,)))
    return tasks


class NoEvents:
    """In the place of the pipe to a driver."""

    def send(self, event: str, **values: Any) -> None:
        """Nobody listens."""

    def phase(self, phase: str) -> None:
        """Nobody listens."""

    def note(self, text: str) -> None:
        """Nobody listens."""


def convert_bare(source: str) -> int:
    """One conversion, in a process of the bare pool."""
    from trtsmith.converter.cli.batch_worker import work

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as reports:
        request: dict[str, Any] = {
            "source": source,
            "words": [],
            "bench": None,
            "folder": folder,
            "reports": reports,
            "cwd": "",
        }
        events: Any = NoEvents()
        return int(work(json.dumps(request), events, Path(os.devnull))["exit_code"])


def bare(home: Path, count: int, jobs: int) -> dict[str, float]:
    tasks = models(home, count)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    started = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        codes = pool.map(convert_bare, [task.source for task in tasks], chunksize=1)
        seconds = time.perf_counter() - started
    if any(codes):
        raise RuntimeError(f"exit codes {codes}")
    return {"seconds": round(seconds, 3)}


def driven(home: Path, count: int, make: Callable[[Path], TaskExecutor]) -> dict[str, float]:
    """By `batch`, without a cache. tasks_s: from when the executor is ready; seconds: all of it."""
    made: list[TimedExecutor] = []

    def timed(scratch: Path) -> TaskExecutor:
        made.append(TimedExecutor(make(scratch)))
        return made[-1]

    tasks = models(home, count)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=home) as out:
        run_batch(tasks, BatchOptions(Path(out), timed), Quiet())
        seconds = time.perf_counter() - started
    return {"seconds": round(seconds, 3), "tasks_s": round(made[0].seconds, 3)}


def local(home: Path, count: int, jobs: int) -> dict[str, float]:
    return driven(home, count, lambda scratch: LocalPool(scratch, jobs=jobs))


def ray(home: Path, count: int, jobs: int) -> dict[str, float]:
    del jobs
    from trtsmith.converter.batch.fleet.ray_executor import RayExecutor

    with (
        tempfile.TemporaryDirectory(prefix="tb", dir="/tmp") as short,
        local_nodes(NODES, Path(short)) as cluster,
    ):
        return driven(home, count, lambda scratch: RayExecutor(cluster.address, scratch))


def quick(home: Path, count: int, out: Path, store: Store | None) -> dict[str, float]:
    """Tasks that a worker does in no time, in the folder `out`."""
    paths = []
    (home / "quick").mkdir(exist_ok=True)
    for number in range(count):
        paths.append(home / "quick" / f"{number}.onnx")
        if not paths[-1].exists():
            paths[-1].write_text(f"model {number}")
    tasks = [
        BatchTask(f"q{path.stem}", f"q{path.stem}", str(path), ("--no-verify", "50"), (path,))
        for path in paths
    ]
    machine = MachineFacts(versions={"trtsmith": "1"}, flavours={"tensorrt_rtx": "1.7"}, rules="r")

    class Pool(LocalPool):
        def machine_of(self, task: BatchTask) -> MachineFacts:
            return machine

    started = time.perf_counter()
    options = BatchOptions(
        out,
        lambda scratch: Pool(scratch, jobs=2, worker="quick_worker", paths=[Path(__file__).parent]),
        store,
    )
    sources = run_batch(tasks, options, Quiet()).sources.values()
    counts = {f"tasks_{name}": float(list(sources).count(name)) for name in sorted({*sources})}
    return {"seconds": round(time.perf_counter() - started, 3), **counts}


def hits(home: Path, count: int, jobs: int) -> dict[str, Any]:
    del jobs
    store = Store(home / "cache", print)
    quick(home, count, home / "first", store)
    return {
        "tasks": count,
        "from_cache": quick(home, count, home / "second", store),
        "kept": quick(home, count, home / "second", store),
    }


def memory(home: Path, count: int, jobs: int) -> dict[str, float]:
    del jobs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    quick(home, count, home / f"memory-{count}", None)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"tasks": count, "imports_mib": round(before / 1024, 1), "peak_mib": round(after / 1024, 1)}


def apart(home: Path, part: str, count: int, jobs: int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--in",
        str(home),
        "--only",
        part,
        "--tasks",
        str(count),
        "--jobs",
        str(jobs),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(home: Path, parts: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """bare, local and ray in turns, with medians and what the driver adds to the bare pool."""
    found: dict[str, list[dict[str, Any]]] = {part: [] for part in parts}
    for _ in range(options.repeat):
        for part in parts:
            found[part].append(apart(home, part, options.tasks, options.jobs))
            print(f"{part}: {found[part][-1]}", file=sys.stderr, flush=True)
    medians = {
        part: {name: statistics.median(one[name] for one in runs) for name in runs[0]}
        for part, runs in found.items()
    }
    document: dict[str, Any] = {
        "tasks": options.tasks,
        "jobs": options.jobs,
        "medians": medians,
        "runs": found,
    }
    if "bare" in medians:
        base = medians["bare"]["seconds"]
        document["overhead"] = {
            part: round(figures["tasks_s"] / base - 1, 4)
            for part, figures in medians.items()
            if part != "bare"
        }
    return document


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--tasks", type=int, default=40, help="small conversions (40)")
    parser.add_argument("--hits", type=int, default=1000, help="tasks that hit the cache (1000)")
    parser.add_argument("--jobs", type=int, default=2, help="of bare and local (2)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds of bare, local and ray (3)")
    parser.add_argument("--in", dest="home", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = options.only.split(",")
    if options.home is not None:
        functions = {"bare": bare, "local": local, "ray": ray, "hits": hits, "memory": memory}
        print(json.dumps(functions[parts[0]](options.home, options.tasks, options.jobs)))
        return
    from bench_rewrite import machine  # not in the processes that are measured

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        document: dict[str, Any] = {"machine": machine()}
        turns = [part for part in ("bare", "local", "ray") if part in parts]
        if turns:
            document |= compared(home, turns, options)
        if "hits" in parts:
            document["hits"] = apart(home, "hits", options.hits, options.jobs)
        if "memory" in parts:
            document["memory"] = [apart(home, "memory", count, options.jobs) for count in (100, 1000)]
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
