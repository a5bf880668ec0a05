"""Outputs that random numbers decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import parsed
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.verify.constant_outputs import random_outputs
from trtsmith.converter.verify.graphs import verify_graphs


def model_of(folder: Path, body: str) -> Model:
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
    found = random_outputs(model_of(tmp_path, body))
    assert list(found) == ["y", "z"]
    assert "'noise'" in found["y"] and found["z"].startswith("output 'z' is not comparable: ")


def test_dropout_in_inference_is_not_random(tmp_path: Path) -> None:
    constants = "t = Constant <value = bool {0}> () h = Constant <value = float {0.5}> ()"
    body = f"{constants} y = Dropout (x, h, t) z = Neg (y) w = Neg (x)"
    assert random_outputs(model_of(tmp_path, body)) == {}


def test_the_other_outputs_are_compared(tmp_path: Path) -> None:
    feeds, drawn = (
        {"x": np.array([1, 2, 3], np.float32)},
        "r = RandomNormalLike (x) y = Add (x, r) z = Neg (y)",
    )
    some, all_random = (model_of(tmp_path, f"{drawn} w = Neg ({last})") for last in "xz")
    verdict = verify_graphs(some, rewrite(some).model, feeds, "mine")
    assert verdict.status == "agrees in part" and [c.output for c in verdict.comparisons] == ["w"]
    assert verdict.outputs == {"w": "agree", "y": "not comparable", "z": "not comparable"}
    verdict = verify_graphs(all_random, rewrite(all_random).model, feeds, "mine")
    assert verdict.status == "not comparable" and "draws random numbers" in verdict.reason
