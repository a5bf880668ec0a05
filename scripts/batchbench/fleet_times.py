"""Measures what Ray adds to a batch, on a Ray of three nodes on this machine, and how the driver's memory grows.

    python scripts/batchbench/fleet_times.py                   # 40 small conversions, by a pool of processes and by Ray
    python scripts/batchbench/fleet_times.py --memory          # 100 and 1,000 tasks that do nothing: memory of the driver

Both have three tasks at a time, and their processes are up before the clock starts: each has done three tasks. Rounds take
turns; the median counts. The model is one node, which TensorRT-RTX builds for; every task has it. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from batchbench.chaos import local_nodes, write_relu  # noqa: E402
from trtsmith.converter.batch.execution import Executor  # noqa: E402
from trtsmith.converter.batch.fleet.ray_executor import RayExecutor  # noqa: E402
from trtsmith.converter.batch.run.local_pool import LocalPool  # noqa: E402
from trtsmith.converter.batch.task import BatchTask  # noqa: E402

AT_A_TIME = 3
MIB = 2**20


def tasks_of(model: Path, count: int, *words: str) -> list[BatchTask]:
    return [BatchTask(f"task-{i}", f"task-{i}", str(model), words, (model,)) for i in range(count)]


def seconds_of(executor: Executor, tasks: Sequence[BatchTask]) -> float:
    """Of all but the first, which start what is needed."""
    for ended in executor.run(tasks[:AT_A_TIME], lambda event: None):
        assert ended.record.status.passed, ended.record
    started = time.monotonic()
    for ended in executor.run(tasks[AT_A_TIME:], lambda event: None):
        assert ended.record.status.passed, ended.record
        if ended.folder is not None:
            shutil.rmtree(ended.folder)
    return time.monotonic() - started


def compare(home: Path, count: int, rounds: int) -> dict[str, Any]:
    """Seconds of the pool and of Ray."""
    model = write_relu(home / "relu.onnx")
    tasks = tasks_of(model, count + AT_A_TIME)
    pool_s, ray_s = [], []
    with local_nodes(AT_A_TIME, home, {}) as cluster:
        for _ in range(rounds):
            with LocalPool(home, jobs=AT_A_TIME) as pool:
                pool_s.append(seconds_of(pool, tasks))
            with RayExecutor(cluster.address, home) as fleet:
                ray_s.append(seconds_of(fleet, tasks))
    more = statistics.median(ray_s) / statistics.median(pool_s) - 1
    return {"tasks": count, "pool_s": pool_s, "ray_s": ray_s, "ray_takes_more": round(more, 3)}


def memory_of(address: str, home: Path, count: int) -> dict[str, Any]:
    """Resident MiB of this process, before and at most."""
    folder = home / "models"
    folder.mkdir(exist_ok=True)
    tasks = []
    for number in range(count):
        model = folder / f"{number}.onnx"
        model.write_bytes(number.to_bytes(4, "big") * 1000)
        tasks += [BatchTask(f"task-{number}", "task", str(model), ("nap=0",), (model,))]
    me, most = psutil.Process(), 0
    paths = [Path(__file__).parent]
    with RayExecutor(address, home, worker="chaos_worker", paths=paths) as fleet:
        before = me.memory_info().rss
        for ended in fleet.run(tasks, lambda event: None):
            assert ended.record.status.passed and ended.folder is not None, ended.record
            shutil.rmtree(ended.folder)
            most = max(most, me.memory_info().rss)
    return {"tasks": count, "before_mib": round(before / MIB, 1), "most_mib": round(most / MIB, 1)}


def grow(home: Path, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Each count in a process of its own."""
    with local_nodes(AT_A_TIME, home, {}) as cluster:
        found = []
        for count in counts:
            words = [sys.executable, __file__, "--address", cluster.address, "--tasks", str(count)]
            done = subprocess.run(
                words, stdout=subprocess.PIPE, check=True, env={**os.environ, "TMPDIR": str(home)}
            )
            found.append(json.loads(done.stdout))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--address", help="of a Ray, for one measurement of memory")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="fleet-", dir="/tmp"))
    try:
        if options.address:
            found: Any = memory_of(options.address, home, options.tasks)
        else:
            found = (
                grow(home, (100, 1000)) if options.memory else compare(home, options.tasks, options.rounds)
            )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
