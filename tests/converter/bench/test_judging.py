"""Agreement of outputs: TF32's effect is allowed, wrong numbers are not, random outputs are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from gpucheck.stress import depthwise_network
from tests.converter.models import parsed
from trtsmith.converter.bench.against import PRECISION, ExpectedOutputs, judge_of
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.candidate_judge import judge_outputs
from trtsmith.converter.verify.rounding import GRIDS
from trtsmith.converter.verify.verdict import NOT_COMPARABLE

RNG = np.random.default_rng(11)
X = RNG.standard_normal((8, 64)).astype(np.float32)
W = RNG.standard_normal((64, 32)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """y = x @ w; r is random."""
    text = "(float[8,64] x) => (float[8,32] y, float[8,32] r) { y = MatMul (x, w) r = RandomNormalLike (y) }"
    return parsed(tmp_path / "m.onnx", text, {"w": W})


def shortened(array: np.ndarray) -> np.ndarray:
    """Rounded down to TF32's 10 explicit bits of significand."""
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def test_tf32_agrees_and_a_wrong_number_does_not(model: Model) -> None:
    judge = judge_of(model, {"x": X}, print)
    assert judge.baseline is not None
    assert np.allclose(judge.baseline.plain[0]["y"], X @ W, rtol=1e-4, atol=1e-4)
    random = RNG.standard_normal((8, 32)).astype(np.float32)
    close = judge.verdict({"y": shortened(X) @ shortened(W), "r": random})
    assert close.agrees and close.comparisons[0].relative > 1e-5
    wrong = X @ W
    wrong[3, 5] += 5.0
    assert not judge.verdict({"y": wrong, "r": random}).passed
    assert [one.output for one in close.left_out] == ["r"]


def test_another_rounding_than_the_one_that_was_run_agrees(tmp_path: Path) -> None:
    """Bounds of one rounded run exclude other ways to round, which an engine may take."""
    onnx.save(depthwise_network(), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx")
    judge = judge_of(model, {"x": RNG.standard_normal((4, 16, 24, 24)).astype(np.float32)}, print)
    baseline, arithmetic = judge.baseline, Arithmetic(PRECISION)
    assert baseline is not None
    first, *draws = [baseline.rounded(arithmetic, grid) for grid in (1.0, *GRIDS)]
    once = Baseline(model, baseline.sets, known=baseline.plain, roundings={1.0: first})
    assert not all(judge_outputs(once, arithmetic, draw).agrees for draw in draws)
    assert all(judge.verdict(draw[0]).agrees for draw in draws)


def test_a_model_that_onnxruntime_does_not_run_has_no_expectation(tmp_path: Path) -> None:
    model = parsed(tmp_path / "u.onnx", "(float[3] x) => (float[3] y) { y = nobody.NobodyKnowsThis (x) }")
    judge = judge_of(model, {"x": np.ones(3, np.float32)}, print)
    assert judge.verdict({"y": np.ones(3, np.float32)}).status == NOT_COMPARABLE


def test_nothing_compared_is_no_agreement() -> None:
    assert not ExpectedOutputs().verdict({"y": np.ones(3)}).passed
