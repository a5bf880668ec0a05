"""scripts/batchbench/cache_times.py, at small size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from batchbench import cache_times


@pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in ("tensorrt_rtx", "tensorrt")),
    reason="needs a TensorRT",
)
def test_hits_are_measured_and_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--tasks", "12", "--model-kib", "1", "--engine-kib", "3", "--folder", str(tmp_path)]
    assert cache_times.main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["tasks"], document["model_bytes"], document["engine_bytes"]) == (12, 1024, 3072)
    steps = ("machine", "hash", "keys", "find", "place")
    assert document["hits_s"] == pytest.approx(sum(document["seconds"][step] for step in steps), abs=0.01)
    assert 0 < document["hits_s"] < 20 * 12 / 1000 + 2
    assert list(tmp_path.iterdir()) == []
