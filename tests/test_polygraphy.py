"""Another program can use our output: Polygraphy runs the expanded graph and builds the rewritten one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

from tests.converter.models import written
from trtsmith.converter.cli.main import main
from trtsmith.converter.engine.child.pool import child_environment
from trtsmith.converter.engine.libraries import plugin_library

MODEL = """(float[N, 4, 4] pose, float[N, 4, 5] points) => (float[N, 4, 5] moved) {
    inverse = com.microsoft.Inverse (pose)
    moved = MatMul (inverse, points)
}
"""

BUILD = """
import os, sys
import tensorrt_rtx as trt
from polygraphy.backend.trt import CreateConfig, Profile, engine_bytes_from_network, network_from_onnx_path

builder = trt.Builder(trt.Logger())  # the registry reports errors through the logger of a builder
trt.get_plugin_registry().load_library(sys.argv[2])
profile = Profile().add("pose", (1, 4, 4), (2, 4, 4), (8, 4, 4)).add("points", (1, 4, 5), (2, 4, 5), (8, 4, 5))
network = network_from_onnx_path(sys.argv[1])
layers = [network[1].get_layer(i).name for i in range(network[1].num_layers)]
engine = bytes(engine_bytes_from_network(network, config=CreateConfig(profiles=[profile])))
print("layers:", *layers)
print("bytes:", len(engine))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "poses.onnx", MODEL)


def test_polygraphy_runs_the_expanded_graph(model: Path) -> None:
    expanded = model.with_name("expanded.onnx")
    assert main(["rewrite", str(model), "-o", str(expanded), "--expand", "-q"]) == 0
    rng = np.random.default_rng(0)
    pose = (rng.normal(size=(3, 4, 4)) + 4 * np.eye(4)).astype(np.float32)
    points = rng.normal(size=(3, 4, 5)).astype(np.float32)
    with OnnxrtRunner(SessionFromOnnx(str(expanded))) as runner:
        moved = runner.infer({"pose": pose, "points": points})["moved"]
    np.testing.assert_allclose(moved, np.linalg.solve(pose.astype(np.float64), points), rtol=1e-4, atol=1e-5)


def test_polygraphy_builds_the_rewritten_graph(model: Path, tmp_path: Path) -> None:
    rewritten = model.with_name("rewritten.onnx")
    assert main(["rewrite", str(model), "-o", str(rewritten), "-q"]) == 0
    environment = {**child_environment("tensorrt_rtx", tmp_path), "POLYGRAPHY_USE_TENSORRT_RTX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(rewritten), str(plugin_library())],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "MatrixInverse" in done.stdout
    assert int(done.stdout.rsplit("bytes:", 1)[1]) > 1000
