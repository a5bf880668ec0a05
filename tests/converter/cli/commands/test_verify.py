"""trtsmith verify on real engines and manifests, with onnxruntime on the rewritten graph in place of the engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.converter.cli.commands.conftest import SIZES, run_by
from tests.converter.cli.commands.running import Cli, Ran, refused, refuses
from tests.converter.models import inverse, written
from tests.converter.verify.fake_engine import Arrays, FakeEngine

VERIFY = "verify m.onnx e.plan -q"


def test_an_engine_that_agrees(engine: FakeEngine, cli: Cli) -> None:
    ran = cli(f"{VERIFY} --report r.json")
    assert (ran.code, ran.err) == (0, ""), ran
    assert [one["x"].shape for one in engine.asked] == list(SIZES)
    assert "verdict: agree" in ran.out and "input x: matrices near a multiple of the identity" in ran.out
    assert [line.split()[:2] for line in ran.out.splitlines()[2:5]] == [
        [at, "y"] for at in ("min", "opt", "max")
    ]
    assert "the engine is assumed to compute in TF32" in ran.out and "not run" not in ran.out
    report = json.loads(Path("r.json").read_text())
    assert report["verified"] is True and report["verdict"]["engine_run"] is True
    assert [c["at"] for c in report["verdict"]["comparisons"]] == ["min", "opt", "max"]
    (request,) = engine.requests
    assert request.flavour == "tensorrt_rtx" and [p.name for p in request.plugin_libraries] == [
        "libtrtsmith_plugins.so"
    ]


def wrong_at_the_largest(outputs: Arrays) -> Arrays:
    if len(outputs["y"]) == 5:
        outputs["y"] = outputs["y"].copy()
        outputs["y"][4, 1, 2] += 3
    return outputs


def test_an_engine_that_is_wrong_at_one_size(engine: FakeEngine, cli: Cli) -> None:
    engine.planted = wrong_at_the_largest
    ran = cli(VERIFY)
    assert ran.code == 3 and "verdict: disagree: y at max: relative error" in ran.out and "4,1,2: " in ran.out
    assert cli(f"{VERIFY} --shapes x=2x4x4").code == 0
    assert cli(f"{VERIFY} --atol 3.1").code == 0
    assert cli(f"{VERIFY} --atol y:2.9").code == 3


def test_inputs_and_outputs_from_files(engine: FakeEngine, cli: Cli) -> None:
    x = (2 * np.eye(4) + np.random.default_rng(0).standard_normal((3, 4, 4)) / 9).astype(np.float32)
    np.savez("x.npz", x=x, mask=x)
    np.savez("y.npz", y=np.linalg.inv(-x))
    np.savez("z.npz", y=np.linalg.inv(x))
    ran = cli(f"{VERIFY} --inputs x.npz --expected y.npz")
    assert ran.code == 0 and "(inputs: x.npz, outputs expected: y.npz)" in ran.out
    assert np.array_equal(engine.asked[0]["x"], x)
    assert "warning: 'mask' of --inputs x.npz is not used: the model's inputs are 'x'" in ran.err
    ran = cli(f"{VERIFY} --inputs x.npz --expected z.npz")
    assert ran.code == 3 and "relative error 2.0e+00" in ran.out


def test_precision_by_the_manifest_and_by_the_flag(engine: FakeEngine, cli: Cli) -> None:
    engine.planted = lambda outputs: {"y": outputs["y"] * 1.01}
    assert cli(VERIFY).code == 3
    assert cli(f"{VERIFY} --precision bf16").code == 0
    manifest = json.loads(Path("e.manifest.json").read_text())
    Path("e.manifest.json").write_text(json.dumps(manifest | {"precision": "bf16"}))
    ran = cli(VERIFY)
    assert ran.code == 0 and "the engine is assumed to compute in bfloat16" in ran.out
    assert cli(f"{VERIFY} --precision fp32").code == 3


def test_another_model_than_the_engines(engine: FakeEngine, cli: Cli) -> None:
    inverse(Path("other.onnx"), ("n", 4, 4), name="renamed")
    ran = cli("verify other.onnx e.plan -q")
    assert (
        ran.code == 0 and "warning: the manifest says that the engine was built from another model" in ran.err
    )
    written(Path("far.onnx"), "(float[n,4,4] z) => (float[n,4,4] y) { y = Neg (z) }")
    ran = cli("verify far.onnx e.plan -q --report r.json")
    ran = Ran(ran.code, ran.out, ran.err[ran.err.index("error: ") :])
    refused(ran, 2, "the engine has no input 'z'", "the engine has an input 'x', which the model lacks")
    assert json.loads(Path("r.json").read_text())["verified"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--expected y.npz", "outputs are given without their inputs"),
        ("--inputs many.npz", "is outside the optimization profile"),
        ("--inputs x.npz --expected x.npz", "these are the model's inputs"),
        ("--inputs x.npz --expected whole.npz", "is int64, and the model's is float32"),
        ("--inputs x.npz --shapes x=1x4x4", "--shapes and --inputs are both given"),
        ("--rtol q:1", "the model has no output 'q'"),
        ("--inputs none.npz", "the file cannot be read"),
        ("--shapes x=1x4", "rank 2, but the input has rank 3"),
        ("--report e.plan", "the report would replace"),
        ("--report e.manifest.json", "the report would replace e.manifest.json"),
    ],
)
def test_wrong_usage(arguments: str, words: str, engine: FakeEngine, cli: Cli) -> None:
    np.savez("x.npz", x=np.ones((1, 4, 4), np.float32))
    np.savez("many.npz", x=np.ones((20, 4, 4), np.float32))
    np.savez("whole.npz", y=np.ones((1, 4, 4), np.int64))
    engine.planted = lambda outputs: {}  # whatever is let through disagrees
    refuses(cli, 2, f"{VERIFY} {arguments}", words)


def test_the_runtime_says_that_a_library_is_missing(engine: FakeEngine, cli: Cli) -> None:
    engine.planted = lambda outputs: {}
    assert cli(f"{VERIFY} --plugins none.so").code == 3
    assert engine.requests[0].plugin_libraries[-1] == Path("none.so")


@pytest.fixture
def frozen(here: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> FakeEngine:
    """An engine whose axes and large grid are constants."""
    text = """(float[2,300] x, int64[1] axes, float[2,300] grid) => (float[A,B] y) {
        s = Add (x, grid) y = ReduceSum (s, axes) }"""
    model = written(here / "m.onnx", text)
    grid = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    np.save("grid.npy", grid)
    assert cli("convert m.onnx -o e.plan -q --no-verify --freeze axes=[1] --freeze grid=@grid.npy").code == 0
    return run_by(FakeEngine(model, freeze={"axes": np.array([1]), "grid": grid}), monkeypatch)


def test_frozen_inputs_are_those_of_the_manifest(frozen: FakeEngine, cli: Cli) -> None:
    refused(cli(VERIFY), 2, "only the hash of input 'grid'", "--inputs")
    x, grid = np.random.default_rng(1).standard_normal((2, 300)).astype(np.float32), np.load("grid.npy")
    np.savez("x.npz", x=x, grid=grid)
    ran = cli(f"{VERIFY} --inputs x.npz")
    assert ran.code == 0 and set(frozen.asked[0]) == {"x"}
    np.savez("x.npz", x=x, grid=grid + 1)
    other = "input 'grid' differs from the constant in the engine"
    refused(cli(f"{VERIFY} --inputs x.npz"), 2, other)
