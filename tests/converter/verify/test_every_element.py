"""Errors that a ratio of norms does not see: small outputs beside large ones, and single elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.converter.verify.fake_engine import Arrays, FakeEngine
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.verify import engine as stage
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict

DETECTOR = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 84, 8400] x) => (float[1, 84, 8400] y) {
    sizes = Constant <value = int64[2] {4, 80}> ()
    b, s = Split <axis = 1> (x, sizes)
    scale = Constant <value = float {640.0}> () half = Constant <value = float {6.0}> ()
    near = Sigmoid (b) boxes = Mul (near, scale)
    far = Sub (s, half) scores = Sigmoid (far)
    y = Concat <axis = 1> (boxes, scores)
}"""
"""Boxes in pixels beside scores below 1, as YOLOv8 has them."""


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    onnx.save(onnx.parser.parse_model(DETECTOR), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((1, 84, 8400)).astype(np.float32)

    def verified(planted: Callable[[Arrays], Arrays], **options: Any) -> Verdict:
        fake = FakeEngine(tmp_path / "m.onnx", planted=planted)
        monkeypatch.setattr(stage, "run_engine", fake.run)
        return stage.verify_engine(
            load_model(tmp_path / "m.onnx"),
            RunRequest(Path("e.plan")),
            (InputSet("", {"x": x}),),
            "mine",
            engine_inputs={"x"},
            **options,
        )

    return verified


def changed(change: Callable[[np.ndarray], None]) -> Callable[[Arrays], Arrays]:
    def planted(outputs: Arrays) -> Arrays:
        array = outputs["y"].copy()
        change(array)
        return {"y": array}

    return planted


def no_scores(y: np.ndarray) -> None:
    y[:, 4:] = 0


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_scores_that_are_all_zero_disagree(precision: str, verify: Callable[..., Verdict]) -> None:
    verdict = verify(changed(no_scores), precision=precision)
    assert verdict.status == "disagree"


def one_score_off(y: np.ndarray) -> None:
    y[0, 10, 77] *= 1.5


def scores_of_a_class_off(y: np.ndarray) -> None:
    y[:, 17] *= 1.05


def boxes_of_one_anchor_moved(y: np.ndarray) -> None:
    y[0, :4, 4000] += 8


def nothing(y: np.ndarray) -> None:
    del y


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (one_score_off, {0: 0, 1: 10, 2: 77}, "1 of 705600 elements are further off than rounding explains"),
        (boxes_of_one_anchor_moved, {2: 4000}, "4 of 705600 elements"),
        (
            scores_of_a_class_off,
            {1: 17},
            "of 84 slices along axis 1 are further off",
        ),
    ],
)
def test_what_is_off_is_named(
    precision: str,
    change: Callable[[np.ndarray], None],
    place: dict[int, int],
    words: str,
    verify: Callable[..., Verdict],
) -> None:
    verdict = verify(changed(change), precision=precision)
    (found,) = verdict.comparisons
    assert verdict.status == "disagree" and found.relative < 2e-3 and words in verdict.reason
    assert {axis: found.worst[axis] for axis in place} == place or tuple(place.items()) == (found.slice,)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_right_outputs_agree(precision: str, verify: Callable[..., Verdict]) -> None:
    assert verify(changed(nothing), precision=precision).passed
