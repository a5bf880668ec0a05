"""A calibrated graph is reported by what it changes; its engine is compared with the graph itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal
from tests.converter.verify.judging import judged_in
from trtsmith.converter.engine.builder.build_request import BuildResult
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify import candidates
from trtsmith.converter.verify.allowance import Limits, allowance
from trtsmith.converter.verify.conversion_check import ConversionCheck
from trtsmith.converter.verify.reduced import run_quantized
from trtsmith.converter.verify.sets import InputSource
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import Verdict

Change = Callable[[np.ndarray], Any]

X, W = normal(64, 32, seed=3), normal(32, 8, seed=4)
SCALE = 0.03
GPU = Gpu("NVIDIA A10", (8, 6))
INFO = EngineInfo("tensorrt_rtx", "1.6.1", GPU.name, "8.6", (), (), 1, 0)


def original(folder: Path) -> Model:
    folder = folder / "original"
    folder.mkdir(parents=True)
    body = "(float[64,32] x) => (float[64,8] y, int64[64] best)"
    return network(
        folder, f"{body} {{ y = MatMul (x, w) best = ArgMax <axis = 1, keepdims = 0> (y) }}", {"w": W}
    )


def quantized(folder: Path, scale: float) -> Model:
    """The same with x in int8."""
    body = """(float[64,32] x) => (float[64,8] y, int64[64] best) {
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
        y = MatMul (d, w) best = ArgMax <axis = 1, keepdims = 0> (y) }"""
    return network(folder, body, {"w": W, "s": np.array(scale, np.float32), "z": np.array(0, np.int8)})


def by_numpy(scale: float) -> np.ndarray:
    steps = np.clip(np.rint(X.astype(np.float64) / np.float32(scale)), -128, 127)
    return steps * np.float32(scale) @ W.astype(np.float64)


def cost(scale: float) -> float:
    exact = X.astype(np.float64) @ W
    return float(np.linalg.norm(by_numpy(scale) - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("scale", [0.03, 0.5])
def test_what_8_bits_change_is_told(tmp_path: Path, scale: float) -> None:
    verdict = judged_in("int8", original(tmp_path), quantized(tmp_path, scale), {"x": X})
    y, best = verdict.comparisons
    assert verdict.passed and y.relative == pytest.approx(cost(scale), rel=1e-3)
    assert best.agrees and best.reason != "equal"
    assert verdict.reason.startswith("in int8 against the original: largest relative error ")
    assert (0.1 < cost(0.5) < 0.25) and cost(0.03) < 0.02


def test_a_scale_that_leaves_little_is_no_pass(tmp_path: Path) -> None:
    assert cost(2.5) > 0.5
    model, wrong = original(tmp_path), quantized(tmp_path, 2.5)
    verdict = judged_in("int8", model, wrong, {"x": X})
    assert verdict.status == "not comparable"
    assert f"to int8 alone changes it by {cost(2.5):.0%}" in verdict.reason
    strict = parse_tolerances(["1e-2"], ["1e-2"])
    assert judged_in("int8", model, wrong, {"x": X}, strict).status == "disagree"


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path


def built(folder: Path) -> BuildResult:
    return BuildResult(folder / "e.plan", 1, 0.0, "tensorrt_rtx", "1.6.1", ("sm86",), (), (), 1, ())


def on_an_engine(
    folder: Path, patch: pytest.MonkeyPatch, graph: Model, check: ConversionCheck, **outputs: Any
) -> Verdict:
    """The verdict of a conversion to this graph, whose engine gives these outputs."""
    patch.setattr(candidates, "run_engine", lambda *_, **__: RunResult(INFO, (outputs,), 0.0))
    request, rewritten = RunRequest(folder / "e.plan"), Rewritten(graph, (), ())
    judged = check.graphs(rewritten, "int8", check.baseline(lambda text: None))
    return check.run(judged, built(folder), request)


def converted(folder: Path, monkeypatch: pytest.MonkeyPatch, made: np.ndarray, **told: Any) -> Verdict:
    """The verdict of a conversion whose engine gives these numbers."""
    options = {"tolerances": parse_tolerances(), "expected": None} | told
    check = ConversionCheck(original(folder), {"x": X}, InputSource("given"), mode="auto", gpu=GPU, **options)
    outputs = {"y": made.astype(np.float32), "best": made.argmax(1)}
    return on_an_engine(folder, monkeypatch, quantized(folder, SCALE), check, **outputs)


def flipped(y: np.ndarray) -> np.ndarray:
    """As if values of x near the middle between two steps had been rounded to the other one."""
    steps = X.astype(np.float64) / SCALE
    near = np.abs(np.abs(steps - np.rint(steps)) - 0.5) < 4e-3
    assert 8 < near.sum() < X.size / 48
    return y + (near * np.sign(steps - np.rint(steps)) * SCALE) @ W


@pytest.mark.parametrize(
    ("change", "agrees"),
    [
        (lambda y: y, True), (flipped, True), (lambda y: y * 1.006, False), (lambda y: y * 1.05, False),
        (lambda y: X.astype(np.float64) @ W, False), (lambda y: y + np.nan, False),
    ],
)  # fmt: skip
def test_an_engine_is_held_to_its_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, agrees: bool
) -> None:
    verdict = converted(tmp_path, monkeypatch, change(by_numpy(SCALE)))
    assert verdict.passed is agrees and verdict.engine_run, verdict.reason
    assert "against the graph in int8: " in verdict.reason and "; the graphs agree: " in verdict.reason
    assert "or 0.5 of what int8 changes there" in verdict.precision
    y = verdict.comparisons[0]
    assert agrees or "nan" in y.reason or f"allowed {cost(SCALE) / 2:.2g}" in y.reason


def test_who_gives_tolerances_or_outputs_speaks_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = X.astype(np.float64) @ W
    wide = parse_tolerances(["y:1"], ["y:9"])
    assert "against the graph" not in converted(tmp_path / "a", monkeypatch, exact, tolerances=wide).reason
    wanted = {"y": exact.astype(np.float32), "best": exact.argmax(1)}
    verdict = converted(tmp_path / "b", monkeypatch, exact, expected=wanted)
    assert verdict.passed and "against the graph" not in verdict.reason


def test_products_of_the_graph_are_rounded_too(tmp_path: Path) -> None:
    model, exact = quantized(tmp_path, SCALE), X.astype(np.float64) @ W
    own = run_quantized(model, {"x": X}, {"y": exact, "best": exact.argmax(1)}, "int8")
    plain, narrow = own.plain["y"], own.narrow["y"]
    assert 1e-5 < np.linalg.norm(narrow - plain) / np.linalg.norm(plain) < 1e-3
    np.testing.assert_allclose(plain, by_numpy(SCALE), rtol=1e-4, atol=1e-4)
    share = float(np.mean(by_numpy(SCALE).argmax(1) != exact.argmax(1)))
    assert share > 0 and own.allowed == {"y": pytest.approx(cost(SCALE) / 2, rel=1e-3), "best": share / 2}


def test_an_output_whose_shape_8_bits_change_is_told_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = "t = Round (y) places = NonZero (t) }"
    ends = "(float[64,32] x) => (float[64,8] y, int64[2,M] places) {"
    weights = {"w": W, "s": np.array(SCALE, np.float32), "z": np.array(0, np.int8)}
    model = network(folder_of(tmp_path / "original"), f"{ends} y = MatMul (x, w) {last}", weights)
    steps = "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) y = MatMul (d, w)"
    graph = network(folder_of(tmp_path / "quantized"), f"{ends} {steps} {last}", weights)
    made = by_numpy(SCALE)
    places = np.array(np.nonzero(np.rint(made)))
    assert places.shape[1] != np.count_nonzero(np.rint(X @ W))

    check = ConversionCheck(model, {"x": X}, InputSource("given"), None, None, "auto", GPU)
    y = made.astype(np.float32)
    verdict = on_an_engine(tmp_path, monkeypatch, graph, check, y=y, places=places)
    assert verdict.agrees and verdict.engine_run and [c.output for c in verdict.comparisons] == ["y"]
    why = {one.output: one.why for one in verdict.left_out}["places"]
    assert why.startswith("output 'places' is not comparable: its shape is [2, ") and "to int8" in why


def test_what_is_allowed_in_any_case_is_allowed(tmp_path: Path) -> None:
    y, best = X @ W, (X @ W).argmax(1)
    plain, floors = {"y": y, "best": best}, {"y": 0.07, "best": 0.25}
    assert allowance(plain, (plain,), "tf32", original(tmp_path).proto, Limits(floors)).allowed == floors
    half = {"y": y * np.float32(1.1), "best": np.where(np.arange(64) < 32, best, best + 1)}
    more = allowance(plain, (half,), "tf32", original(tmp_path / "again").proto, Limits(floors))
    assert more.allowed["y"] == pytest.approx(0.2 * (1 + 2 / y.size**0.5), rel=1e-3)
    assert "best" not in more.allowed


@pytest.mark.parametrize(("numbers", "times"), [(1, 6.0), (4, 4.0), (10_000, 2.04)])
def test_of_few_numbers_more_is_allowed(numbers: int, times: float, tmp_path: Path) -> None:
    """With one or two it is chance whose errors cancel; with many it is twice what the rounding changes."""
    y = np.linspace(1, 2, numbers, dtype=np.float32)
    found = allowance({"y": y}, ({"y": y * np.float32(1.01)},), "tf32", original(tmp_path).proto).allowed
    assert found["y"] == pytest.approx(times * 0.01, rel=1e-3)
