"""One cache and many processes: writers and a pruner at once, some of which are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.converter.batch.cache import hammer
from tests.converter.batch.cache.results import left_behind
from tests.processes import checkout_environment
from trtsmith.converter.batch.cache.prune import LEFT_BEHIND_S, PruneOrder, prune

WRITERS = 8


@pytest.mark.parametrize("kills", [False, True], ids=["all live", "some are killed"])
def test_whatever_is_found_is_whole(tmp_path: Path, kills: bool) -> None:
    cache, work = tmp_path / "cache", tmp_path / "work"

    def start(role: str, seconds: float, seed: int) -> subprocess.Popen[str]:
        words = (sys.executable, hammer.__file__, role, cache, work, seconds, seed)
        return subprocess.Popen(
            [str(word) for word in words],
            env=checkout_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    alive = [start("write", 3, seed) for seed in range(WRITERS)] + [start("prune", 3, WRITERS)]
    try:
        deadline = time.monotonic() + 60
        while not (cache / "entries").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if kills:
            for victim in (alive.pop(8), alive.pop(3), alive.pop(2), alive.pop(1)):
                time.sleep(0.31)
                victim.kill()
                victim.communicate()
            alive.append(start("prune", 2, 99))
        ended = [(*process.communicate(timeout=120), process.returncode) for process in alive]
    finally:
        for process in alive:
            process.kill()
    assert [(err, code) for _, err, code in ended if code] == []
    assert sum(int(out or 0) for out, _, _ in ended) > 20  # there were hits, and each was whole
    hammer.write(cache, work, 0.5, 77)
    assert hammer.places_whole(cache, tmp_path / "placed") > 0
    later = prune(cache, PruneOrder(damaged=True), time.time() + LEFT_BEHIND_S + 60)
    assert later.damaged == () and left_behind(cache) == []
    again = prune(cache, PruneOrder(damaged=True))
    assert (again.entries, again.blobs, again.temporary) == (0, 0, 0)
