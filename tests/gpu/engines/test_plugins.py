"""The whole chain with plugins in the engine: convert, verify, run, locate, bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import trtsmith
from trtsmith.converter.engine.runtime.runner import Runner

pytestmark = pytest.mark.gpu

SHAPES = ("--shapes", "x=1x4x4:6x4x4:70x4x4")


def network(path: Path, *, change: float = 0.0) -> Path:
    """Two inverses of matrices that are far from singular, with products around them; `change` is added to one weight."""
    rng = np.random.default_rng(11)
    weights = {
        "a": (np.eye(4) * 3 + rng.standard_normal((4, 4)) / 4).astype(np.float32),
        "b": rng.standard_normal((4, 4)).astype(np.float32) / 4,
    }
    weights["b"][1, 2] += np.float32(change)
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "trtsmith" : 1]> g (float[N, 4, 4] x) => (float[N, 4, 4] y) {
            p = Mul (x, b)  q = Add (p, a)  r = trtsmith.MatrixInverse (q)
            s = Tanh (r)  t = Add (s, a)  u = trtsmith.MatrixInverse (t)  y = Relu (u) }"""
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(w, name) for name, w in weights.items())
    for index, node in enumerate(model.graph.node):
        node.name = f"n{index}_{node.op_type}"
    onnx.save(model, path)
    return path


def matrices(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, 4, 4)).astype(np.float32) / 4


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    ran = trtsmith(
        capsys, "convert", network(tmp_path / "m.onnx"), "-o", "e.plan", "-q", "--no-verify", *SHAPES
    )
    assert ran.code == 0, ran
    assert json.loads(Path("e.manifest.json").read_text())["plugins"]
    return tmp_path / "e.plan"


def test_convert_runs_an_engine_with_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("-o", "e.plan", "-q", "--verify", "engine", *SHAPES)
    ran = trtsmith(capsys, "convert", network(tmp_path / "m.onnx"), *words)
    assert ran.code == 0 and "2 plugin" in ran.out and "not run" not in ran.out, ran
    assert json.loads(Path("e.manifest.json").read_text())["verdict"]["engine_run"] is True


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_in_reduced_precision(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("-o", "e.plan", "-q", "--verify", "engine", "--precision", precision, *SHAPES)
    ran = trtsmith(capsys, "convert", network(tmp_path / "m.onnx"), *words)
    assert ran.code == 0 and "2 plugin" in ran.out, ran


def test_verify_agrees_at_each_end_and_sees_one_wrong_weight(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = trtsmith(capsys, "verify", "m.onnx", engine, "-q", "--report", "r.json")
    assert ran.code == 0, ran
    verdict = json.loads(Path("r.json").read_text())["verdict"]
    assert verdict["status"] == "agree" and verdict["engine_run"] is True
    assert [c["at"] for c in verdict["comparisons"]] == ["min", "opt", "max"]
    network(Path("wrong.onnx"), change=0.5)
    ran = trtsmith(capsys, "verify", "wrong.onnx", engine, "-q")
    assert ran.code == 3 and "disagree" in ran.out, ran


def test_run_writes_what_numpy_computes(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = matrices(9)
    np.savez("in.npz", x=x)
    ran = trtsmith(capsys, "run", engine, "--inputs", "in.npz", "-o", "out.npz", "-q")
    assert ran.code == 0, ran
    weights = {
        t.name: onnx.numpy_helper.to_array(t).astype(np.float64)
        for t in onnx.load("m.onnx").graph.initializer
    }
    inner = np.linalg.inv(x.astype(np.float64) * weights["b"] + weights["a"])
    wanted = np.maximum(np.linalg.inv(np.tanh(inner) + weights["a"]), 0)
    np.testing.assert_allclose(np.load("out.npz")["y"], wanted, rtol=1e-4, atol=1e-5)


def test_sessions_beside_each_other_and_in_a_cuda_graph(engine: Path) -> None:
    with Runner.load(engine) as runner:
        feeds = [{"x": matrices(batch)} for batch in (1, 6, 70)]
        wanted = [runner(feed)["y"] for feed in feeds]
        sessions = [runner.session(cuda_graph=graph) for graph in (False, True, False)]
        for _ in range(3):
            started = [s.infer(f, synchronise=False) for s, f in zip(sessions, feeds, strict=True)]
            for outputs, right in zip(started, wanted, strict=True):
                np.testing.assert_array_equal(outputs["y"].numpy(), right)


def test_an_engine_that_brings_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("-o", "e.plan", "-q", "--embed-plugins", "--verify", "engine", *SHAPES)
    ran = trtsmith(capsys, "convert", network(tmp_path / "m.onnx"), *words)
    assert ran.code == 0, ran
    np.savez("in.npz", x=matrices(3))
    ran = trtsmith(capsys, "run", "e.plan", "--inputs", "in.npz", "-o", "out.npz", "-q", "--embedded-plugins")
    assert ran.code == 0 and np.isfinite(np.load("out.npz")["y"]).all(), ran


def test_locate_names_nothing_in_a_right_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--on", "tensorrt", "--json", "found.json", "-q", *SHAPES)
    ran = trtsmith(capsys, "locate", network(tmp_path / "m.onnx"), *words)
    assert ran.code == 0, ran
    assert json.loads(Path("found.json").read_text())["status"] in ("agree", "rounding")


def bench(capsys: pytest.CaptureFixture[str], *words: Any) -> Any:
    quick = ("--warmup-ms", "50", "--duration-s", "0.3", "--json", "record.json", "-q")
    ran = trtsmith(capsys, "bench", *words, *quick)
    assert ran.code == 0, ran
    return json.loads(Path("record.json").read_text())


def test_bench_names_the_layers_of_plugins(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench(capsys, "m.onnx", "--cuda-graph", "off", *SHAPES)
    assert found["layers"]["by_plugin"] and found["layers"]["sum_ms"] > 0


def test_plugins_against_standard_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two engines of one model."""
    monkeypatch.chdir(tmp_path)
    found = bench(capsys, network(tmp_path / "m.onnx"), "--plugin-vs-native", *SHAPES)
    assert found["plugin_vs_native"]
