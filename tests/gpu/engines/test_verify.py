"""`trtsmith verify` and `convert --verify engine` on a real GPU, with engines that need no plugin; and planted errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import trtsmith

pytestmark = pytest.mark.gpu

SHAPES = ("--shapes", "x=1x3x24x24:2x3x32x32:4x3x40x40")


def network(path: Path, *, change: float = 0.0) -> Path:
    """Two convolutions, a residual, a mean and a softmax; `change` is added to one weight of 1,296."""
    rng = np.random.default_rng(5)
    weights = {
        "a": rng.standard_normal((12, 3, 3, 3)).astype(np.float32) / 5,
        "b": rng.standard_normal((12, 12, 3, 3)).astype(np.float32) / 10,
        "c": rng.standard_normal((12, 7)).astype(np.float32),
    }
    weights["b"][3, 4, 1, 1] += np.float32(change)
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3, H, W] x) => (float[N, 12, H, W] f, float[N, 7] p) {
            u = Conv <pads = [1, 1, 1, 1]> (x, a)  v = Relu (u)  s = Conv <pads = [1, 1, 1, 1]> (v, b)  f = Add (s, v)
            m = ReduceMean <axes = [2, 3], keepdims = 0> (f)  q = MatMul (m, c)  p = Softmax (q) }"""
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(w, name) for name, w in weights.items())
    onnx.save(model, path)
    return path


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    ran = trtsmith(
        capsys, "convert", network(tmp_path / "m.onnx"), "-o", "e.plan", "-q", "--no-verify", *SHAPES
    )
    assert ran.code == 0, ran
    return tmp_path / "e.plan"


def test_an_engine_agrees_at_each_end_of_its_profile(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = trtsmith(capsys, "verify", "m.onnx", engine, "-q", "--report", "r.json")
    assert ran.code == 0, ran
    verdict = json.loads(Path("r.json").read_text())["verdict"]
    assert verdict["status"] == "agree" and verdict["engine_run"] is True
    assert [(c["at"], c["output"]) for c in verdict["comparisons"]] == [
        (at, output) for at in ("min", "opt", "max") for output in ("f", "p")
    ]
    assert all(c["relative"] < 5e-3 and c["cosine"] > 0.9999 for c in verdict["comparisons"])


def test_one_wrong_weight_is_seen(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network(Path("wrong.onnx"), change=0.5)
    ran = trtsmith(capsys, "verify", "wrong.onnx", engine, "-q")
    assert ran.code == 3 and "disagree" in ran.out and "f at max" in ran.out, ran
    assert "was built from another model" in ran.err


def test_sizes_outside_of_the_profile(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = trtsmith(capsys, "verify", "m.onnx", engine, "-q", "--shapes", "x=5x3x40x40")
    assert ran.code == 2 and "error: " in ran.err and "Traceback" not in ran.err, ran


def test_convert_runs_the_engine_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = trtsmith(
        capsys, "convert", network(tmp_path / "m.onnx"), "-o", "e.plan", "-q", "--verify", "engine", *SHAPES
    )
    assert (
        ran.code == 0 and "the graphs agree: largest relative error" in ran.out and "not run" not in ran.out
    ), ran
    assert json.loads(Path("e.manifest.json").read_text())["verdict"]["engine_run"] is True
