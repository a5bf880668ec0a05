"""Errors that a ratio of norms hides: small outputs beside large ones, and single elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import written
from tests.converter.verify.fake_engine import at, judged_engine
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict

DETECTOR = """(float[1, 84, 2100] x) => (float[1, 84, 2100] y)
    <int64[2] sizes = {4, 80}, float scale = {640.0}, float half = {6.0}> {
    b, s = Split <axis = 1> (x, sizes)
    near = Sigmoid (b) boxes = Mul (near, scale)
    far = Sub (s, half) scores = Sigmoid (far)
    y = Concat <axis = 1> (boxes, scores) }"""
"""Boxes in pixels beside scores below 1, as YOLOv8 has them."""

Change = Callable[[np.ndarray], np.ndarray]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Change, str], Verdict]:
    path = written(tmp_path / "m.onnx", DETECTOR)
    x = np.random.default_rng(0).standard_normal((1, 84, 2100)).astype(np.float32)

    def verified(change: Change, precision: str) -> Verdict:
        planted = lambda outputs: {"y": change(outputs["y"])}  # noqa: E731
        return judged_engine(monkeypatch, path, (InputSet("", {"x": x}),), planted, precision=precision)

    return verified


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_right_outputs_agree_and_scores_that_are_all_zero_do_not(
    precision: str, verify: Callable[[Change, str], Verdict]
) -> None:
    assert verify(lambda y: y, precision).passed
    assert verify(at(np.s_[:, 4:], lambda scores: 0), precision).status == "disagree"


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (at((0, 10, 77), lambda score: score * 1.5), {0: 0, 1: 10, 2: 77}, "1 of 176400 elements are further off than"),
        (at(np.s_[0, :4, 1000], lambda box: box + 8), {2: 1000}, "4 of 176400 elements"),
        (at(np.s_[:, 17], lambda scores: scores * 1.05), {1: 17}, "of 84 slices along axis 1 are further off"),
    ],
    ids=["one score", "boxes of one anchor", "scores of a class"],
)  # fmt: skip
def test_what_is_off_is_named(
    precision: str,
    change: Change,
    place: dict[int, int],
    words: str,
    verify: Callable[[Change, str], Verdict],
) -> None:
    verdict = verify(change, precision)
    (found,) = verdict.comparisons
    assert verdict.status == "disagree" and found.relative < 2e-3 and words in verdict.reason
    assert {axis: found.worst[axis] for axis in place} == place or tuple(place.items()) == (found.slice,)
