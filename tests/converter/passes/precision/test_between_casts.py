"""float16 products that are summed in float32: which, in what form, and what the numbers are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.modelfile.ort import run
from converter.passes.precision.emulate import emulated
from converter.passes.precision.formats import BF16, FP16
from converter.passes.precision.reduce import reduce_precision
from tests.converter.passes.precision.networks import (
    T,
    casts,
    made_in,
    network,
    normal,
    summed_wide,
    types_of,
)

BODY = """(float[2,3,8,8] x) => (float[2,4,4] y) {
    [conv] a = Conv <pads = [1,1,1,1]> (x, k, kb)
    b = Reshape (a, rows)
    [layer] q = MatMul (b, w)
    [gemm_like] p = MatMul (w2, b)
    [attention] s = MatMul (q, p)
    [einsum] y = Einsum <equation = "bij,bjk->bik"> (s, s)
}"""
WEIGHTS = {
    "k": normal(4, 3, 3, 3, scale=0.3),
    "kb": normal(4),
    "rows": np.array([2, 4, 64]),
    "w": normal(64, 64, scale=0.2),
    "w2": normal(64, 4),
}


@pytest.mark.parametrize(
    ("fmt", "everything", "wanted"),
    [
        (FP16, False, set()),
        (FP16, True, {"conv", "layer", "gemm_like", "attention", "einsum"}),
        (BF16, True, set()),
    ],
)
def test_which_products_are_summed_in_float32(
    tmp_path: Path, fmt: object, everything: bool, wanted: set[str]
) -> None:
    model = network(tmp_path, BODY, WEIGHTS)
    reduced = reduce_precision(model, fmt, fp32_sums=everything)  # type: ignore[arg-type]
    assert summed_wide(reduced.model) == wanted
    assert (reduced.report.summed, reduced.report.fp32_sums) == (len(wanted), everything)
    assert ("summed in float32" in reduced.report.summary()) == bool(wanted)


def test_weights_stay_in_float16_and_every_product_has_casts_of_its_own(tmp_path: Path) -> None:
    body = """(float[4,8] x) => (float[4,8] y) {
        [a] p = MatMul (x, w)
        [b] q = Gemm (x, w, c)
        [sum] y = Add (p, q) }"""
    reduced = reduce_precision(
        network(tmp_path, body, {"w": normal(8, 8), "c": normal(8)}), FP16, fp32_sums=True
    )
    graph = reduced.model.proto.graph
    assert {t.name: t.data_type for t in graph.initializer} == {
        "w/float16": T.FLOAT16,
        "c/float16": T.FLOAT16,
    }
    assert summed_wide(reduced.model) == {"a", "b"}
    assert reduced.report.casts == len(casts(reduced.model))
    names = [cast.name for cast in casts(reduced.model)]
    assert len(set(names)) == len(names) == 1 + 5 + 2 + 1  # x; the factors; the results; y
    assert made_in(reduced.model)["sum"] == T.FLOAT16


def test_a_node_that_is_kept_in_float32_is_not_touched(tmp_path: Path) -> None:
    body = "(float[4,8] x) => (float[4,8] y) { [a] p = MatMul (x, w)\n [b] y = MatMul (p, w) }"
    reduced = reduce_precision(network(tmp_path, body, {"w": normal(8, 8)}), FP16, keep=["a"], fp32_sums=True)
    assert summed_wide(reduced.model) == {"b"} and reduced.report.summed == 1
    assert types_of(reduced.model)["p"] == T.FLOAT


def test_inside_a_loop_too(tmp_path: Path) -> None:
    body = """(float[4,8] x) => (float[4,8] y) {
        [loop] y = Loop (count, , x) <
            body = g1 (int64 i, bool go, float[4,8] state) => (bool go_on, float[4,8] next) {
                go_on = Identity (go)
                [inside] next = MatMul (state, w)
            }>
    }"""
    weights = {"w": normal(8, 8, scale=0.3), "count": np.array(3)}
    reduced = reduce_precision(network(tmp_path, body, weights), FP16, fp32_sums=True)
    assert summed_wide(reduced.model) == {"inside"}
    x = normal(4, 8, seed=3)
    expected = x.astype(np.float16).astype(np.float32)
    w = weights["w"].astype(np.float16).astype(np.float32)
    for _ in range(3):
        expected = (expected @ w).astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(
        run(emulated(reduced.model), {"x": x}, optimise=False)["y"], expected, rtol=2e-3
    )


def test_a_sum_beyond_float16_becomes_infinite_as_in_the_type(tmp_path: Path) -> None:
    body = "(float[1,64] x) => (float[1,1] y) { [a] y = MatMul (x, w) }"
    model = network(tmp_path, body, {"w": np.full((64, 1), 40.0, np.float32)})
    feeds = {"x": np.full((1, 64), 30.0, np.float32)}
    found = run(emulated(reduce_precision(model, FP16, fp32_sums=True).model), feeds, optimise=False)["y"]
    assert np.isinf(found).all()  # 76,800
