"""Measures how the memory of a batch's driver grows with the number of tasks, on a Ray of three nodes on this machine.

    python scripts/batchbench/fleet_memory.py              # 100 and 1,000 tasks

The tasks convert nothing, and give an engine of 200 KB each; every task has a model of its own. Each count is measured in a
process of its own. Prints JSON: resident MiB of the driver before the first task, and at most.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from batchbench.local_nodes import local_nodes  # noqa: E402
from trtsmith.converter.batch.fleet.ray_executor import RayExecutor  # noqa: E402
from trtsmith.converter.batch.task import BatchTask  # noqa: E402

NODES = 3
MIB = 2**20


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
    paths = [ROOT / "scripts"]
    with RayExecutor(address, home, worker="batchbench.chaos_worker", paths=paths) as fleet:
        before = me.memory_info().rss
        for ended in fleet.run(tasks, lambda event: None):
            assert ended.record.status.passed and ended.folder is not None, ended.record
            shutil.rmtree(ended.folder)
            most = max(most, me.memory_info().rss)
    return {"tasks": count, "before_mib": round(before / MIB, 1), "most_mib": round(most / MIB, 1)}


def grow(home: Path, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Each count in a process of its own."""
    with local_nodes(NODES, home, {}) as cluster:
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
    parser.add_argument("--tasks", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--address", help="of a Ray, for one measurement")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="fleet-", dir="/tmp"))
    try:
        if options.address:
            found: Any = memory_of(options.address, home, *options.tasks)
        else:
            found = grow(home, options.tasks)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
