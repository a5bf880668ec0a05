"""The benchmark of memory: what it counts, and the model that it makes. No size of a real run is tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bench_memory
from bench_memory import Peak, peak_of
from converter.modelfile.load import load_model
from converter.modelfile.ort import run
from converter.rewrite import reference

CHILD = "import time, numpy; a = numpy.ones({mib} << 17); time.sleep(0.3)"


def test_the_memory_of_children_counts(tmp_path: Path) -> None:
    """64 MiB in a process and 128 MiB in its child, held at the same time."""
    child = CHILD.format(mib=128)
    parent = f"import numpy, subprocess, sys; a = numpy.ones(64 << 17); subprocess.run([sys.executable, '-c', {child!r}])"
    alone = peak_of([sys.executable, "-c", "import numpy, time; time.sleep(0.3)"], tmp_path)
    both = peak_of([sys.executable, "-c", parent], tmp_path)
    assert 150 << 20 < both.anonymous - alone.anonymous < 250 << 20
    assert both.total > both.anonymous > alone.anonymous > 0


def test_mapped_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * (1 << 18))  # 64 MiB
    read = (
        "import mmap, time; f = open('a'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ);"
        "sum(m[::4096]); time.sleep(0.3)"
    )
    peak = peak_of([sys.executable, "-c", read], tmp_path)
    assert peak.mapped >= 64 << 20 > peak.anonymous


def test_the_largest_sum_is_of_one_moment() -> None:
    peak = Peak()
    peak.add(10, 1)
    peak.add(1, 10)
    assert (peak.total, peak.anonymous, peak.mapped) == (11, 10, 10)


def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        peak_of([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_the_model_runs_and_has_a_custom_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_memory, "WIDTH", 16)
    bench_memory.write_model(tmp_path / "m.onnx", 2)
    assert (tmp_path / "model.data").stat().st_size == 2 * 16 * 16 * 4
    x = np.random.default_rng(0).standard_normal((1, 4, 16)).astype(np.float32)
    outputs = run(reference(load_model(tmp_path / "m.onnx")), {"x": x})
    weights = np.fromfile(tmp_path / "model.data", np.float32).reshape(2, 16, 16)
    y = x @ weights[0] @ weights[1]
    assert outputs["y"] == pytest.approx(y, rel=1e-4, abs=1e-5)
    assert outputs["z"] == pytest.approx(np.linalg.inv(y[..., :4] + 9 * np.eye(4)), rel=1e-4, abs=1e-5)


def test_the_record_that_is_kept_is_within_its_limits() -> None:
    record = json.loads(bench_memory.OUTPUT.read_text())
    assert record["within_limits"] is True and record["model"]["mib"] >= 2048
    for command in record["commands"].values():
        assert (
            0
            < command["over_builder_over_model"]
            <= record["limits"]["over_builder_over_model"]
            == bench_memory.LIMIT
        )
