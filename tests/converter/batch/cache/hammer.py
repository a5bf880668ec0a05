"""A process that uses a cache as hard as it can, for test_many_processes: `hammer.py write|prune CACHE WORK SECONDS SEED`.

It ends with 0, or with a traceback for a result that is not what was added under its key.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from pathlib import Path

from tests.converter.batch.cache.results import key_of, result
from trtsmith.converter.batch.cache.layout import all_entries
from trtsmith.converter.batch.cache.prune import PruneOrder, prune
from trtsmith.converter.batch.cache.store import Store

KEYS = 12


def files_of(number: int, build: int) -> dict[str, bytes]:
    """The engine that a key gets differs from build to build; the library is the same for all, the manifest for the key."""
    engine = b"%d built by %d\n" % (number, build)
    return {"model.plan": engine * 5000, "lib.so": b"library" * 9000, "m.json": b"%d" % number * 700}


def check(placed: Path, number: int) -> None:
    """Whole, and of one build."""
    engine = (placed / "model.plan").read_bytes()
    build = int(engine.split(b"\n")[0].rpartition(b" ")[2])
    assert {p.name: p.read_bytes() for p in placed.iterdir()} == files_of(number, build), placed


def write(cache: Path, work: Path, seconds: float, seed: int) -> None:
    draw, until = random.Random(seed), time.monotonic() + seconds
    said: list[str] = []
    store = Store(cache, said.append)
    hits = 0
    while time.monotonic() < until:
        number = draw.randrange(KEYS)
        folder = work / f"{seed}-{draw.randrange(10**9)}"
        found = store.find(key_of(number))
        if found is not None and draw.random() < 0.8:
            if store.place(found, folder):
                check(folder, number)
                hits += 1
        else:
            store.add(result(folder, number, files_of(number, seed)), folder)
        shutil.rmtree(folder, ignore_errors=True)
    assert said == [], said
    print(hits)


def clear(cache: Path, work: Path, seconds: float, seed: int) -> None:
    del work
    draw, until = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < until:
        order = draw.choice(
            [
                PruneOrder(),
                PruneOrder(everything=True),
                PruneOrder(larger_than=400_000),
                PruneOrder(damaged=True),
            ]
        )
        done = prune(cache, order)
        assert done.damaged == () and done.failed == (), done
        time.sleep(0.02)


def places_whole(cache: Path, work: Path) -> int:
    """How many entries are found; each of them is placed, and whole."""
    numbers = {key_of(number): number for number in range(KEYS)}
    store, found = Store(cache, lambda text: sys.exit(text)), 0
    for key, _ in list(all_entries(cache)):
        record = store.find(key)
        if record is not None:
            assert store.place(record, work / key), key
            check(work / key, numbers[key])
            found += 1
    return found


if __name__ == "__main__":
    role, cache, work, seconds, seed = sys.argv[1:]
    {"write": write, "prune": clear}[role](Path(cache), Path(work), float(seconds), int(seed))
