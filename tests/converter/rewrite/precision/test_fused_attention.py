"""16-bit attention: which Softmax has the products' type, and the replacement of a mask's lowest number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from tests.converter.rewrite.precision.networks import (
    T,
    casts,
    error_of,
    made_in,
    network,
    normal,
    reduce_model,
)
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import BF16, FP16, Format

LOWEST = float(np.finfo(np.float32).min)

FORMS = {
    "plain": "p = Softmax <axis = -1> (a)",
    "scaled": "s = Mul (a, scale)\n p = Softmax <axis = 3> (s)",
    "scores chosen": "s = Where (keep, a, closed)\n p = Softmax <axis = -1> (s)",
    "capped": "d = Div (a, scale)\n t = Tanh (d)\n s = Mul (t, scale)\n p = Softmax <axis = -1> (s)",
}


def attention(
    folder: Path, scores: str, behind: str = "weights = Identity (p)", closed: float = LOWEST
) -> Model:
    """Attention of 2 heads of 16 numbers over 5 rows. scores: the statements from the products, `a`, to `p`."""
    body = f"""(float[1,2,5,16] q, float[1,2,5,16] v, bool[5,5] keep) => (float[1,2,5,16] y) {{
        [first] k = MatMul (q, w)
        kt = Transpose <perm = [0, 1, 3, 2]> (k)
        [products] a = MatMul (q, kt)
        {scores}
        {behind}
        [second] y = MatMul (weights, v) }}"""
    order = np.arange(5)
    numbers = {"zero": np.float32(0), "closed": np.float32(closed), "scale": np.float32(0.5)}
    arrays = {
        "w": normal(16, 16, scale=0.2),
        "bias": normal(1, 2, 5, 5, seed=1),
        "mask": np.where(order > order[:, None], np.float32(closed), np.float32(0)),
    }
    return network(folder, body, {**numbers, **arrays})


MASKED = "s = Add (a, mask)\n p = Softmax <axis = -1> (s)"

FEEDS = {
    "q": normal(1, 2, 5, 16, seed=2),
    "v": normal(1, 2, 5, 16, seed=3),
    "keep": np.tri(5, dtype=bool),
}


@pytest.mark.parametrize("fmt", [FP16, BF16])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("closed", [LOWEST, -np.inf, -1e4])
def test_all_of_an_attention_is_in_the_type(tmp_path: Path, fmt: Format, form: str, closed: float) -> None:
    model = attention(tmp_path, FORMS[form], closed=closed)
    reduced = reduce_model(model, fmt)
    assert not reduced.report.kept
    assert set(made_in(reduced.model).values()) == {fmt.elem}
    assert {cast.input[0] for cast in casts(reduced.model)} <= {"q", "v", "y/float16", "y/bfloat16"}
    assert error_of(reduced.model, model, FEEDS) < 3 * 2.0**-fmt.digits


@pytest.mark.parametrize("guard", ["IsNaN (p)", "IsNaN (s)"])
def test_a_guard_against_nan_joins_it(tmp_path: Path, guard: str) -> None:
    behind = f"missing = {guard}\n weights = Where (missing, zero, p)"
    model = attention(tmp_path, FORMS["scores chosen"], behind, closed=-np.inf)
    reduced = reduce_model(model, FP16)
    assert not reduced.report.kept
    assert error_of(reduced.model, model, FEEDS) < 1e-3


def test_the_lowest_number_of_a_mask_becomes_the_types(tmp_path: Path) -> None:
    reduced = reduce_model(attention(tmp_path, FORMS["scores chosen"]), FP16)
    (closed,) = (t for t in reduced.model.proto.graph.initializer if t.name.startswith("closed"))
    values = numpy_helper.to_array(closed)
    assert values.dtype == np.float16 and values == np.float16(-49128)


def test_a_row_that_is_masked_whole_stays_the_mean(tmp_path: Path) -> None:
    model = attention(tmp_path, FORMS["scores chosen"])
    feeds = {**FEEDS, "keep": np.zeros((5, 5), bool)}
    assert error_of(reduce_model(model, FP16).model, model, feeds) < 1e-3


@pytest.mark.parametrize(
    ("scores", "behind"),
    [
        ("p = Softmax <axis = 1> (a)", "weights = Identity (p)"),
        ("n = Relu (a)\n p = Softmax <axis = -1> (n)", "weights = Identity (p)"),
        ("p = Softmax <axis = -1> (a)", "weights = Sqrt (p)"),
        (MASKED, "weights = Identity (p)"),
        ("s = Where (keep, a, high)\n p = Softmax <axis = -1> (s)", "weights = Identity (p)"),
    ],
)
def test_another_softmax_stays_in_float32(tmp_path: Path, scores: str, behind: str) -> None:
    body = attention(tmp_path, scores.replace("high", "closed"), behind, closed=-LOWEST)
    assert "Softmax" in {kept.op_type for kept in reduce_model(body, FP16).report.kept}


def test_scores_out_of_range_keep_it_in_float32(tmp_path: Path) -> None:
    reduced = reduce_model(attention(tmp_path, FORMS["scores chosen"]), FP16, seen={"a": 7e4, "s": 3.4e38})
    assert made_in(reduced.model)["second"] == T.FLOAT16
    assert "Softmax" in {kept.op_type for kept in reduced.report.kept}
