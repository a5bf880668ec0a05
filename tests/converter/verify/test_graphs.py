"""The original against the rewritten graph; outputs that depend on random numbers are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import inverse, parsed, written
from tests.converter.verify.judging import baseline_of, judged_graph
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, lowered, rewrite
from trtsmith.converter.verify.allowance import AMPLIFIED, ILL_CONDITIONED, Allowance
from trtsmith.converter.verify.baseline import Arithmetic
from trtsmith.converter.verify.candidate_judge import compare_outputs
from trtsmith.converter.verify.constant_outputs import random_outputs
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.rounding import rounded
from trtsmith.converter.verify.verdict_words import sentence
from trtsmith.importers.opdef import Arrays

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def test_the_rewritten_graph_is_held_to_the_original(tmp_path: Path) -> None:
    original = load_model(inverse(tmp_path / "m.onnx"))
    rewritten = rewrite(original).model
    feeds = {"x": (np.eye(4) + np.ones((2, 4, 4)) / 9).astype(np.float32)}
    verdict = judged_graph(original, rewritten, feeds)
    assert (verdict.status, verdict.engine_run, verdict.inputs) == ("agree", False, "mine")
    wrong = load_model(inverse(tmp_path / "wrong.onnx"))
    wrong.proto.graph.node[0].op_type = "Abs"
    verdict = judged_graph(original, rewrite(wrong).model, feeds)
    assert verdict.status == "disagree" and verdict.comparisons[0].relative > 1
    expected = {"y": np.linalg.inv(-feeds["x"])}
    assert judged_graph(original, rewritten, feeds, expected=expected).passed
    assert judged_graph(original, rewritten, feeds, expected={"y": -expected["y"]}).status == "disagree"


def test_graphs_that_do_not_run_are_not_comparable(tmp_path: Path) -> None:
    unknown = parsed(tmp_path / "m.onnx", "(float[1] x) => (float[1] y) { y = bar.Foo (x) }")
    verdict = judged_graph(unknown, unknown, {"x": np.ones(1, np.float32)})
    assert verdict.status == "not comparable" and verdict.reason.startswith("the original: ")
    verdict = judged_graph(unknown, unknown, {"x": np.ones(1, np.float32)}, expected={"y": A})
    assert verdict.status == "not comparable" and verdict.reason.startswith("the rewritten graph: ")


def test_outputs_of_another_type_are_cast_back(tmp_path: Path) -> None:
    """uint64 is held as the int64 of its bits, float64 as float32; types that nobody told of disagree."""
    text = "(uint64[3] x, double[3] u) => (uint64[3] y, double[3] v) { y = Mul (x, x) v = Neg (u) }"
    original = parsed(tmp_path / "m.onnx", text)
    result = rewrite(original)
    feeds = {"x": np.array([2**63 - 25, 5, 2**64 - 1], np.uint64), "u": np.array([0.1, 2.0, -3.0])}
    model = result.model
    assert judged_graph(original, model, feeds, io_types=result.io_types).status == "agree"
    assert judged_graph(original, model, feeds).status == "not comparable"


def deep(path: Path, quantised: bool) -> Path:
    """Layers that amplify what they are given, with steps between them or without."""
    body, last = "", "x"
    for i in range(12):
        body += f"m{i} = MatMul ({last}, w) t{i} = Tanh (m{i}) "
        last = f"t{i}"
        if quantised:
            body += f"q{i} = QuantizeLinear (m{i}, s, z) d{i} = DequantizeLinear (q{i}, s, z) "
            last = f"d{i}"
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((64, 64)))[0].astype(np.float32)
    ends = "(float[64, 64] x) => (float[64, 64] y) <float s = {0.02}, int8 z = {0}>"
    return written(path, f"{ends} {{ {body} y = Identity ({last}) }}", {"w": rotation})


def right_runs(path: Path, quantised: bool, seed: int, grid: float) -> tuple[Arrays, Arrays, Arrays]:
    """What goes in, and two right results: float32 rounds one way or another."""
    model = load_model(deep(path, quantised))
    feeds = {"x": np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32) * 0.8}
    other = run(expand(rounded(lowered(model), "fp32", grid=grid)), feeds, optimise=False, in_order=True)
    return feeds, run(model, feeds, optimise=False), other


@pytest.mark.parametrize(("seed", "grid"), [(0, 0.9), (1, 0.77), (2, 0.5001)])
def test_steps_that_flip_are_no_disagreement(seed: int, grid: float, tmp_path: Path) -> None:
    """However little a rounding changes, a flipped step changes more, and the next layers' steps with it."""
    path = tmp_path / "m.onnx"
    feeds, expected, other = right_runs(path, True, seed, grid)
    (found,) = compare_outputs(
        baseline_of(load_model(path), feeds, expected), Arithmetic(), [other]
    ).comparisons
    assert found.agrees and found.relative > 1e-3
    lost = {"y": np.where(np.arange(64) == 7, 0, other["y"]).astype(np.float32)}
    (found,) = compare_outputs(
        baseline_of(load_model(path), feeds, expected), Arithmetic(), [lost]
    ).comparisons
    assert not found.agrees
    feeds, expected, other = right_runs(path, False, seed, grid)
    (found,) = compare_outputs(
        baseline_of(load_model(path), feeds, expected), Arithmetic(), [other]
    ).comparisons
    assert found.agrees and found.relative < 1e-5


def test_an_output_that_agrees_anyway_is_left_out_for_no_reason() -> None:
    """Rounding may change its shape, or all of it: where nothing was off, that does not matter."""
    for kind, excluded in (("reshaped", True), (ILL_CONDITIONED, True), (AMPLIFIED, False)):
        left = {name: finding(kind, name) for name in "yz"}
        known = Allowance({}, left).only({"y"})
        told = known.excluded(None), known.unproven(None)
        assert told == (({"y": left["y"]}, {}) if excluded else ({}, {"y": left["y"]}))


def drawing(folder: Path, body: str) -> Model:
    return parsed(folder / "m.onnx", f"(float[3] x) => (float[3] y, float[3] z, float[3] w) {{ {body} }}")


@pytest.mark.parametrize(
    "body",
    [
        "[noise] r = RandomNormalLike (x) y = Add (x, r) z = Neg (y) w = Neg (x)",
        "a = Abs (x) [noise] r = Bernoulli (a) y = Identity (r) z = Sub (x, y) w = Neg (x)",
        "t = Constant <value = bool {1}> () h = Constant <value = float {0.5}> ()"
        "[noise] r = Dropout (x, h, t) y = Identity (r) z = Sub (x, y) w = Neg (x)",
        "c = Constant <value = bool {1}> () [noise] y = If (c) <then_branch = a () => (float[3] p) {"
        "[noise] p = RandomNormalLike (x) }, else_branch = b () => (float[3] q) { q = Neg (x) }> z = Neg (y) w = Neg (x)",
    ],
)
def test_what_follows_from_random_numbers(body: str, tmp_path: Path) -> None:
    found = random_outputs(drawing(tmp_path, body))
    assert list(found) == ["y", "z"]
    assert found["y"].figures["node"] == "noise"
    assert sentence(found["z"]).startswith("output 'z' is not comparable: ")


def test_dropout_in_inference_is_not_random(tmp_path: Path) -> None:
    constants = "t = Constant <value = bool {0}> () h = Constant <value = float {0.5}> ()"
    body = f"{constants} y = Dropout (x, h, t) z = Neg (y) w = Neg (x)"
    assert random_outputs(drawing(tmp_path, body)) == {}


def test_the_other_outputs_are_compared(tmp_path: Path) -> None:
    feeds, drawn = (
        {"x": np.array([1, 2, 3], np.float32)},
        "r = RandomNormalLike (x) y = Add (x, r) z = Neg (y)",
    )
    some, all_random = (drawing(tmp_path, f"{drawn} w = Neg ({last})") for last in "xz")
    verdict = judged_graph(some, rewrite(some).model, feeds)
    assert verdict.status == "agrees in part" and [c.output for c in verdict.comparisons] == ["w"]
    assert verdict.outputs == {"w": "agree", "y": "not comparable", "z": "not comparable"}
    verdict = judged_graph(all_random, rewrite(all_random).model, feeds)
    assert verdict.status == "not comparable" and "draws random numbers" in verdict.reason
