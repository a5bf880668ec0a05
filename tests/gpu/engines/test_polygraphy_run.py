"""`polygraphy run --trtsmith` on a real GPU, each command in a process of its own; and its files in `trtsmith verify`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import trtsmith
from tests.polygraphy_registration import declared, installed, metadata_folder

pytestmark = pytest.mark.gpu

Run = Callable[..., str]

STANDARD = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4, 4] x) => (float[N, 4, 4] y) {
    p = MatMul (x, x)  q = Tanh (p)  y = Add (q, x) }"""
CUSTOM = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[N, 4, 4] x) => (float[N, 4, 4] y) {
    p = com.microsoft.Inverse (x)  y = Tanh (p) }"""
MAIN = "import sys; from polygraphy.tools import main; sys.exit(main())"
PROFILE = ("--trt-min-shapes", "x:[1,4,4]", "--trt-opt-shapes", "x:[2,4,4]", "--trt-max-shapes", "x:[5,4,4]")
CLOSE = ("--rtol", "1e-2", "--atol", "1e-2")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """What `polygraphy run ARGUMENTS` prints; it has to pass."""
    from polygraphy.json import save_json

    monkeypatch.chdir(tmp_path)
    path = [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    if installed() != declared():
        path.insert(0, str(metadata_folder(tmp_path / "metadata")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    rng = np.random.default_rng(0)
    inputs = [(3 * np.eye(4) + rng.standard_normal((n, 4, 4)) / 4).astype(np.float32) for n in (1, 5, 2)]
    save_json([{"x": x} for x in inputs], "in.json")
    onnx.save(onnx.parser.parse_model(STANDARD), "standard.onnx")
    onnx.save(onnx.parser.parse_model(CUSTOM), "custom.onnx")

    def call(*arguments: str) -> str:
        command = [sys.executable, "-c", MAIN, "run", *arguments, "--load-inputs", "in.json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


@pytest.mark.parametrize("name", ["standard", "custom"])
def test_an_engine_agrees_with_the_reference(name: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    model, plan = f"{name}.onnx", f"{name}.plan"
    kept = ("--trtsmith-save-engine", plan)
    said = run(model, "--trtsmith", "--trtsmith-reference", *PROFILE, *CLOSE, *kept)
    assert "Passed: 3/3 iterations" in said
    again = ("--trtsmith", "--trtsmith-engine", plan, "--trtsmith-reference", *CLOSE)
    assert "Passed: 3/3 iterations" in run(model, *again)
    run(plan, "--trtsmith", "--save-outputs", "out.json")
    files = ("--load-inputs", "in.json", "--load-outputs", "out.json")
    ran = trtsmith(capsys, "verify", model, plan, "-q", *files, "--save-outputs", "engine.json")
    assert ran.code == 0 and "iteration 2" in ran.out, ran
    assert "Passed: 3/3 iterations" in run(
        model, "--trtsmith-reference", *CLOSE, "--load-outputs", "engine.json"
    )


def test_two_engines_in_one_process(run: Run) -> None:
    """Each with a copy of the plugin library; the second is built while the first is loaded."""
    said = run("custom.onnx", "--trtsmith", "--trtsmith", "--trtsmith-reference", *PROFILE, *CLOSE)
    assert said.count("Pass Rate: 100.00%") == 2
