"""Measure the cache of `trtsmith batch`: how long it takes to find and place conversions that are in it.

    python scripts/batchbench/cache_times.py                    # 1,000 conversions, engines of 200 KB
    python scripts/batchbench/cache_times.py --tasks 100 --model-kib 102400 --folder /mnt/shared

Models and engines are random bytes. A hit is a key (of a new `Keys`, which hashes every file and asks the machine), the
entry's record, and the files, linked and verified, in a folder of their own. Prints JSON: seconds of each step.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from trtsmith.converter.batch.cache.keys import Keys  # noqa: E402
from trtsmith.converter.batch.cache.prune import PruneOrder, prune  # noqa: E402
from trtsmith.converter.batch.cache.store import Store  # noqa: E402
from trtsmith.converter.batch.task import ENGINE, BatchTask  # noqa: E402
from trtsmith.converter.batch.task_record import FileFacts, TaskRecord, TaskStatus  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1000, metavar="N")
    parser.add_argument("--model-kib", type=int, default=64, metavar="KIB")
    parser.add_argument("--engine-kib", type=int, default=200, metavar="KIB")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where models, cache and results lie for the time"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="trtsmith-", dir=options.folder) as folder:
        print(
            json.dumps(
                measure(Path(folder), options.tasks, options.model_kib << 10, options.engine_kib << 10)
            )
        )
    return 0


def measure(folder: Path, count: int, model: int, engine: int) -> dict[str, Any]:
    """Seconds by step, in `folder`. model, engine: bytes of each."""
    seconds: dict[str, float] = {}

    def timed(step: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        done = work()
        seconds[step] = round(time.perf_counter() - began, 3)
        return done

    store = Store(folder / "cache", sys.exit)
    tasks = [_task(folder / "zoo", number, model) for number in range(count)]
    if tasks and not Keys().of(tasks[0]):
        raise SystemExit(
            "a conversion has a key only where a TensorRT is installed: pip install tensorrt-rtx==1.7.1.116"
        )
    made = folder / "made"
    results = {
        task.name: _record(made / task.name, task, key, engine)
        for task, key in zip(tasks, map(Keys().of, tasks), strict=True)
    }

    def add() -> None:
        for name, record in results.items():
            store.add(record, made / name)

    timed("add", add)
    keys = timed("machine", Keys)
    timed("hash", lambda: keys.read(tasks))
    asked = timed("keys", lambda: [keys.of(task) for task in tasks])
    found = timed("find", lambda: [store.find(key) for key in asked])
    placed = timed("place", lambda: [store.place(r, folder / "out" / f"{n}") for n, r in enumerate(found)])
    if not all(placed):
        raise SystemExit(f"{placed.count(False)} of {count} were not placed")
    hits = round(sum(seconds[step] for step in ("machine", "hash", "keys", "find", "place")), 3)
    timed("prune_nothing", lambda: prune(store.folder, PruneOrder()))
    timed("prune_damaged", lambda: prune(store.folder, PruneOrder(damaged=True)))
    timed("prune_all", lambda: prune(store.folder, PruneOrder(everything=True)))
    sizes = {"tasks": count, "model_bytes": model, "engine_bytes": engine}
    return {**sizes, "hits_s": hits, "seconds": seconds}


def _task(zoo: Path, number: int, size: int) -> BatchTask:
    zoo.mkdir(exist_ok=True)
    path = zoo / f"net{number}.onnx"
    path.write_bytes(os.urandom(size))
    words = ("--target", "sm86", "--shapes", "x=1x3x64x64:4x3x64x64:8x3x64x64", "--precision", "fp16")
    return BatchTask(f"net{number}", f"net{number}", str(path), words, (path,))


def _record(folder: Path, task: BatchTask, key: str, size: int) -> TaskRecord:
    """With a manifest and a report of the usual size."""
    folder.mkdir(parents=True)
    files = {ENGINE: os.urandom(size), "model.manifest.json": os.urandom(4096)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    facts = {name: FileFacts(hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items()}
    report = {"nodes": [{"name": f"/block/{n}", "op_type": "Conv", "route": "native"} for n in range(200)]}
    return TaskRecord(task.name, task.model, {}, TaskStatus.AGREE, key=key, files=facts, report=report)


if __name__ == "__main__":
    raise SystemExit(main())
