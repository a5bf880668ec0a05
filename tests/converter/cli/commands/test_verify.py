"""trtsmith verify, on real engines and manifests; what runs the engine is onnxruntime on the rewritten graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from tests.converter.cli.commands.running import Cli, Ran, refused
from tests.converter.models import inverse, save, value
from tests.converter.verify.fake_engine import Arrays, FakeEngine
from trtsmith.converter.verify import engine as stage
from trtsmith.converter.verify import verify_bundle

Verify = Callable[..., Ran]
SHAPES = ((1, 4, 4), (2, 4, 4), (5, 4, 4))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, fake: FakeEngine) -> FakeEngine:
    monkeypatch.setattr(verify_bundle, "describe_engine", fake.describe)
    monkeypatch.setattr(stage, "run_engine", fake.run)
    return fake


@pytest.fixture
def dynamic(folder: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> FakeEngine:
    """An engine of the inverse with a batch of 1 to 5."""
    model = inverse(folder / "m.onnx", ("n", 4, 4))
    shapes = "x=" + ":".join("x".join(map(str, s)) for s in SHAPES)
    assert cli("convert", model, "-o", "e.plan", "-q", "--no-verify", "--shapes", shapes).code == 0
    return use(monkeypatch, FakeEngine(model, {"x": SHAPES}))


def test_an_engine_that_agrees(dynamic: FakeEngine, cli: Cli) -> None:
    ran = cli("verify m.onnx e.plan --report r.json -q")
    assert (ran.code, ran.err) == (0, ""), ran
    assert [one["x"].shape for one in dynamic.asked] == list(SHAPES)
    assert "verdict: agree" in ran.out and "input x: matrices near a multiple of the identity" in ran.out
    assert [line.split()[:2] for line in ran.out.splitlines()[2:5]] == [
        ["min", "y"],
        ["opt", "y"],
        ["max", "y"],
    ]
    assert "the engine is taken to compute in TF32" in ran.out and "not run" not in ran.out
    report = json.loads(Path("r.json").read_text())
    assert report["verified"] is True and report["verdict"]["engine_run"] is True
    assert [c["at"] for c in report["verdict"]["comparisons"]] == ["min", "opt", "max"]
    (request,) = dynamic.requests
    assert request.flavour == "tensorrt_rtx" and [p.name for p in request.plugin_libraries] == [
        "libtrtsmith_plugins.so"
    ]


def wrong_at_the_largest(outputs: Arrays) -> Arrays:
    if len(outputs["y"]) == 5:
        outputs["y"] = outputs["y"].copy()
        outputs["y"][4, 1, 2] += 3
    return outputs


def test_an_engine_that_is_wrong_at_one_size(dynamic: FakeEngine, cli: Cli) -> None:
    dynamic.planted = wrong_at_the_largest
    ran = cli("verify m.onnx e.plan -q")
    assert ran.code == 3 and "verdict: disagree: y at max: relative error" in ran.out and "4,1,2: " in ran.out
    assert cli("verify m.onnx e.plan -q --shapes x=2x4x4").code == 0
    assert cli("verify m.onnx e.plan -q --atol 3.1").code == 0
    assert cli("verify m.onnx e.plan -q --atol y:2.9").code == 3


def test_inputs_and_outputs_from_files(dynamic: FakeEngine, cli: Cli) -> None:
    x = (2 * np.eye(4) + np.random.default_rng(0).standard_normal((3, 4, 4)) / 9).astype(np.float32)
    np.savez("x.npz", x=x)
    np.savez("y.npz", y=np.linalg.inv(-x))
    np.savez("z.npz", y=np.linalg.inv(x))
    ran = cli("verify m.onnx e.plan -q --inputs x.npz --expected y.npz")
    assert ran.code == 0 and "(inputs: x.npz, outputs expected: y.npz)" in ran.out
    assert np.array_equal(dynamic.asked[0]["x"], x)
    ran = cli("verify m.onnx e.plan -q --inputs x.npz --expected z.npz")
    assert ran.code == 3 and "relative error 2.0e+00" in ran.out


def test_precision_by_the_manifest_and_by_the_flag(dynamic: FakeEngine, cli: Cli) -> None:
    dynamic.planted = lambda outputs: {"y": outputs["y"] * 1.01}
    assert cli("verify m.onnx e.plan -q").code == 3
    assert cli("verify m.onnx e.plan -q --precision bf16").code == 0
    manifest = json.loads(Path("e.manifest.json").read_text())
    Path("e.manifest.json").write_text(json.dumps(manifest | {"precision": "bf16"}))
    ran = cli("verify m.onnx e.plan -q")
    assert ran.code == 0 and "the engine is taken to compute in bfloat16" in ran.out
    assert cli("verify m.onnx e.plan -q --precision fp32").code == 3


def test_another_model_than_the_engines(dynamic: FakeEngine, cli: Cli) -> None:
    inverse(Path("other.onnx"), ("n", 4, 4), name="renamed")
    ran = cli("verify other.onnx e.plan -q")
    assert (
        ran.code == 0 and "warning: the manifest says that the engine was built from another model" in ran.err
    )
    node = oh.make_node("Neg", ["z"], ["y"])
    save(Path("far.onnx"), [node], [value("z", ("n", 4, 4))], [value("y", ("n", 4, 4))])
    ran = cli("verify far.onnx e.plan -q --report r.json")
    ran = Ran(ran.code, ran.out, ran.err[ran.err.index("error: ") :])
    refused(ran, 2, "the engine has no input 'z'", "the engine has an input 'x', which the model has not")
    assert json.loads(Path("r.json").read_text())["verified"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--expected", "y.npz"], "outputs are given without their inputs"),
        (["--inputs", "x.npz", "--shapes", "x=1x4x4"], "--shapes and --inputs are both given"),
        (["--rtol", "q:1"], "the model has no output 'q'"),
        (["--inputs", "none.npz"], "the file cannot be read"),
        (["--shapes", "x=1x4"], "rank 2, but the input has rank 3"),
        (["--report", "e.plan"], "the report would replace"),
        (["--report", "e.manifest.json"], "the report would replace e.manifest.json"),
        (["--plugins", "none.so"], "none.so"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, dynamic: FakeEngine, cli: Cli) -> None:
    before = Path("e.plan").read_bytes()
    np.savez("x.npz", x=np.ones((1, 4, 4), np.float32))
    dynamic.planted = lambda outputs: {}  # whatever is let through disagrees
    ran = cli("verify m.onnx e.plan -q", *arguments)
    if words == "none.so":
        assert ran.code == 3 and dynamic.requests[0].plugin_libraries[-1] == Path(
            "none.so"
        )  # the runtime says it is missing
    else:
        refused(ran, 2, words)
    assert Path("e.plan").read_bytes() == before


@pytest.fixture
def frozen(folder: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> FakeEngine:
    """An engine whose axes and large grid are constants."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 300] x, int64[1] axes, float[2, 300] grid) =>
        (float[A, B] y) { s = Add (x, grid) y = ReduceMax (s) r = ReduceSum (s, axes) }"""
    text = text.replace("y = ReduceMax (s) r = ReduceSum (s, axes)", "y = ReduceSum (s, axes)")
    onnx.save(onnx.parser.parse_model(text), "m.onnx")
    grid = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    np.save("grid.npy", grid)
    options = ("--freeze", "axes=[1]", "--freeze", "grid=@grid.npy")
    assert cli("convert m.onnx -o e.plan -q --no-verify", *options).code == 0
    return use(monkeypatch, FakeEngine(Path("m.onnx"), freeze={"axes": np.array([1]), "grid": grid}))


def test_frozen_inputs_are_those_of_the_manifest(frozen: FakeEngine, cli: Cli) -> None:
    refused(
        cli("verify m.onnx e.plan -q"),
        2,
        "no more than the hash of input 'grid'",
        "--inputs",
    )
    x, grid = np.random.default_rng(1).standard_normal((2, 300)).astype(np.float32), np.load("grid.npy")
    np.savez("x.npz", x=x, grid=grid)
    ran = cli("verify m.onnx e.plan -q --inputs x.npz")
    assert ran.code == 0 and set(frozen.asked[0]) == {"x"}
    np.savez("x.npz", x=x, grid=grid + 1)
    refused(
        cli("verify m.onnx e.plan -q --inputs x.npz"), 2,
        "input 'grid' has another value than the engine was frozen to",
    )  # fmt: skip
