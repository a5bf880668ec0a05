"""The measurement of batches, at small size: that it measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.processes import ROOT, checkout_environment


def measured(*words: str) -> dict[str, dict[str, dict[str, float]]]:
    command = [sys.executable, str(ROOT / "scripts/batchbench/bench_batch.py"), *words]
    done = subprocess.run(command, env=checkout_environment(), stdout=subprocess.PIPE, text=True, check=True)
    document: dict[str, dict[str, dict[str, float]]] = json.loads(done.stdout)
    return document


def test_hits_are_hits() -> None:
    hits = measured("--only", "hits", "--hits", "5")["hits"]
    assert hits["from_cache"]["tasks_cache"] == hits["kept"]["tasks_kept"] == hits["tasks"] == 5
    assert hits["from_cache"].keys() == {"seconds", "tasks_cache"}  # and none was run


def test_the_bare_pool_and_batch_convert_the_same() -> None:
    found = measured("--only", "bare,local", "--tasks", "2", "--repeat", "1")
    assert found["medians"].keys() == {"bare", "local"} and found["overhead"].keys() == {"local"}
    assert 0 < found["medians"]["local"]["tasks_s"] <= found["medians"]["local"]["seconds"]
