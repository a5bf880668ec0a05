"""trtsmith verify with the JSON of Polygraphy's runs, and onnxruntime on the rewritten graph as engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from polygraphy.comparator import IterationResult, RunResults
from polygraphy.json import load_json, save_json

import trtsmith as api
from tests.converter.cli.commands.conftest import SIZES, run_by
from tests.converter.cli.commands.running import Cli, refused, refuses
from tests.converter.models import written
from tests.converter.verify.fake_engine import FakeEngine

VERIFY = "verify m.onnx e.plan -q"


@pytest.fixture(autouse=True)
def files(engine: FakeEngine) -> None:
    """Inputs for two iterations, and what is right for them."""
    rng = np.random.default_rng(0)
    x = [(2 * np.eye(4) + rng.standard_normal((n, 4, 4)) / 9).astype(np.float32) for n in (1, 3)]
    save_json([{"x": one} for one in x], "in.json")
    outputs("right.json", [np.linalg.inv(-one) for one in x])
    outputs("wrong.json", [np.linalg.inv(-x[0]), np.linalg.inv(x[1])])
    outputs("short.json", [np.linalg.inv(-x[0])])


def outputs(path: str, y: list[np.ndarray], name: str = "y") -> None:
    RunResults([("trt", [IterationResult({name: one}, 0.1, "trt") for one in y])]).save(path)


def test_inputs_and_outputs_of_polygraphys(engine: FakeEngine, cli: Cli) -> None:
    ran = cli(f"{VERIFY} --load-inputs in.json")
    assert (ran.code, ran.err) == (0, ""), ran
    assert [one["x"].shape for one in engine.asked] == [(1, 4, 4), (3, 4, 4)]
    assert "(inputs: in.json)" in ran.out and "iteration 1" in ran.out
    ran = cli(f"{VERIFY} --load-inputs in.json --load-outputs right.json")
    assert ran.code == 0 and "(inputs: in.json, outputs expected: right.json)" in ran.out
    ran = cli(f"{VERIFY} --load-inputs in.json --load-outputs wrong.json --no-per-node")
    assert ran.code == 3 and "disagree: y at iteration 1: relative error 2.0e+00" in ran.out


def test_several_files_of_inputs(engine: FakeEngine, cli: Cli) -> None:
    ran = cli(f"{VERIFY} --load-inputs in.json --load-inputs in.json")
    assert ran.code == 0 and len(engine.asked) == 4 and "iteration 3" in ran.out


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_what_is_saved_is_read_again(suffix: str, engine: FakeEngine, cli: Cli) -> None:
    """And Polygraphy's own runner gets the same from the inputs as the engine did."""
    saved, given = f"i{suffix}", f"o{suffix}"
    ran = cli(f"{VERIFY} --save-inputs {saved} --save-outputs {given}")
    assert (ran.code, ran.err) == (0, "")
    made = [one["x"] for one in engine.asked]
    assert [x.shape for x in made] == list(SIZES)
    ran = cli(f"{VERIFY} --load-inputs {saved} --load-outputs {given}")
    assert ran.code == 0 and "largest relative error 0.0e+00" in ran.out
    assert all(np.array_equal(a["x"], b) for a, b in zip(engine.asked[3:], made, strict=True))
    if suffix:
        assert all(np.array_equal(one["x"], x) for one, x in zip(load_json(saved), made, strict=True))
        assert [len(run) for run in RunResults.load(given).values()] == [3]


def test_outputs_are_saved_though_they_disagree(engine: FakeEngine, cli: Cli) -> None:
    engine.planted = lambda found: {"y": found["y"] + 1}
    ran = cli(f"{VERIFY} --load-inputs in.json --save-outputs o.json --no-per-node")
    assert ran.code == 3
    first, _ = next(iter(RunResults.load("o.json").values()))
    np.testing.assert_allclose(first["y"] - 1, np.linalg.inv(-load_json("in.json")[0]["x"]), atol=1e-5)


def test_the_api(engine: FakeEngine) -> None:
    verdict = api.verify(
        "m.onnx", "e.plan", load_inputs="in.json", load_outputs="right.json", save_outputs="o.json"
    )
    assert verdict.passed and [c.at for c in verdict.comparisons] == ["iteration 0", "iteration 1"]
    assert api.verify("m.onnx", "e.plan", load_inputs=["in.json"], load_outputs="o.json").passed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--load-outputs right.json", "outputs are given without their inputs"),
        ("--load-inputs in.json --load-outputs short.json", "outputs of 1 iterations, and inputs of 2"),
        ("--load-inputs in.json --inputs x.npz", "inputs are given twice"),
        ("--load-inputs in.json --load-outputs right.json --expected y.npz", "outputs are given twice"),
        ("--load-inputs in.json --shapes x=1x4x4", "--shapes and --inputs are both given"),
        ("--load-inputs none.json", "there is no such file"),
        ("--load-inputs other.json", "no array for input 'x'"),
        ("--load-inputs bad.json", "--load-inputs bad.json, iteration 1"),
        ("--load-inputs in.json --load-outputs names.json", "the model has no output 'z'"),
        ("--save-inputs e.plan", "the inputs would replace e.plan"),
        ("--load-inputs in.json --save-outputs in.json", "the outputs would replace in.json"),
        ("--save-inputs s.json --save-outputs s.json", "the outputs would replace s.json"),
        ("--save-inputs s.json --report s.json", "the report would replace s.json"),
        ("--save-inputs .", "--save-inputs"),
    ],
)
def test_wrong_usage(arguments: str, words: str, engine: FakeEngine, cli: Cli) -> None:
    save_json([{"z": np.ones((1, 4, 4), np.float32)}], "other.json")
    x = load_json("in.json")[0]["x"]
    save_json([{"x": x}, {"x": x[0]}], "bad.json")
    outputs("names.json", [x, x], "z")
    np.savez("x.npz", x=x)
    np.savez("y.npz", y=x)
    refuses(cli, 2, f"{VERIFY} {arguments}", words)
    assert not engine.asked


def test_frozen_inputs_are_the_same_in_every_iteration(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "(float[2,3] x, int64[1] axes) => (float[2] y) { y = ReduceSum <keepdims = 0> (x, axes) }"
    model = written(Path("s.onnx"), text)
    assert cli("convert s.onnx -o s.plan -q --no-verify --freeze axes=[1]").code == 0
    run_by(FakeEngine(model, freeze={"axes": np.array([1])}), monkeypatch)
    x = np.ones((2, 3), np.float32)
    same: list[dict[str, Any]] = [{"x": x, "axes": np.array([1])}, {"x": 2 * x}]
    save_json(same, "same.json")
    save_json([same[0], {"x": x, "axes": np.array([0])}], "other.json")
    ran = cli("verify s.onnx s.plan -q --load-inputs same.json --save-inputs t.json")
    assert ran.code == 0, ran
    assert [sorted(one) for one in load_json("t.json")] == [["axes", "x"]] * 2
    ran = cli("verify s.onnx s.plan -q --load-inputs other.json")
    refused(ran, 2, "input 'axes' differs from the constant in the engine")


def test_a_report_says_what_was_compared(engine: FakeEngine, cli: Cli) -> None:
    assert cli(f"{VERIFY} --load-inputs in.json --report r.json").code == 0
    found = json.loads(Path("r.json").read_text())["verdict"]
    assert found["inputs"] == "in.json"
    assert [c["at"] for c in found["comparisons"]] == ["iteration 0", "iteration 1"]
