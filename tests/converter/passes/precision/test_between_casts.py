"""What is computed in float32 between Casts: which nodes, in what form, and what the numbers are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.modelfile.ort import run
from converter.passes.precision.emulate import emulated
from converter.passes.precision.formats import BF16, FP16, Format
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
    tmp_path: Path, fmt: Format, everything: bool, wanted: set[str]
) -> None:
    model = network(tmp_path, BODY, WEIGHTS)
    reduced = reduce_precision(model, fmt, fp32_sums=everything)
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


CONVOLUTION = """(float[N,4,8,8] x) => (float[N,4,8,8] y) {
    [conv] a = Conv <pads = [1,1,1,1]> (x, k)
    [norm] b = BatchNormalization <epsilon = 0.001> (a, scale, shift, mean, variance)
    [relu] y = Relu (b)
}"""
NORM = {
    "k": normal(4, 4, 3, 3, scale=0.3),
    "scale": normal(4, seed=1) + np.float32(2),
    "shift": normal(4, seed=2),
    "mean": normal(4, seed=3),
    "variance": np.abs(normal(4, seed=4)) + np.float32(0.5),
}


@pytest.mark.parametrize(("opset", "wide_inputs"), [(20, 0), (14, 4)])
def test_a_norm_behind_a_convolution_joins_it(tmp_path: Path, opset: int, wide_inputs: int) -> None:
    """Of an opset that lets the norm's statistics be float32 beside a reduced input, and of one that does not."""
    model = network(tmp_path, CONVOLUTION, NORM, opset=opset)
    reduced = reduce_precision(model, FP16, fp32_sums=True)
    nodes = {node.name: node for node in reduced.model.proto.graph.node}
    assert nodes["norm"].input[0] == nodes["conv"].output[0]
    types = types_of(reduced.model)
    assert {types[name] for name in (*nodes["norm"].input, *nodes["norm"].output)} == {T.FLOAT}
    assert types[nodes["relu"].input[0]] == T.FLOAT16
    assert len(casts(reduced.model)) == 2 + 2 + 1 + wide_inputs  # x and y; the factors; the norm's result
    assert reduced.report.summed == 1
    feeds = {"x": normal(2, 4, 8, 8, seed=9)}
    found = run(emulated(reduced.model), feeds, optimise=False)["y"]
    exact = run(model, feeds)["y"]
    assert 1e-6 < np.linalg.norm(found - exact) / np.linalg.norm(exact) < 1e-3


def test_a_norm_does_not_join_a_convolution_that_others_read(tmp_path: Path) -> None:
    body = CONVOLUTION.replace("[relu] y = Relu (b)", "[sum] y = Add (a, b)")
    reduced = reduce_precision(network(tmp_path, body, NORM), FP16, fp32_sums=True)
    assert summed_wide(reduced.model) == {"conv"}
    assert types_of(reduced.model)["b"] == T.FLOAT16


@pytest.mark.parametrize("fmt", [FP16, BF16])
def test_a_gate_is_computed_in_float32(tmp_path: Path, fmt: Format) -> None:
    body = """(float[N,4,h,w] x) => (float[N,4,h,w] y) {
        [conv] a = Conv <pads = [1,1,1,1], group = 4> (x, k)
        [scaled] b = Mul (a, c)
        [pool] p = GlobalAveragePool (b)
        [squeeze] q = Conv (p, w1)
        [gate] g = HardSigmoid (q)
        [excite] e = Mul (g, b)
        [square] s = Mul (e, e)
        [last] y = Relu (s)
    }"""
    weights = {"k": normal(4, 1, 3, 3), "c": normal(4, 1, 1), "w1": normal(4, 4, 1, 1)}
    reduced = reduce_precision(network(tmp_path, body, weights), fmt)
    wide = {name for name, elem in made_in(reduced.model).items() if elem == T.FLOAT}
    assert wide == {"pool", "excite"} and reduced.report.summed == 0
    (excite,) = (node for node in reduced.model.proto.graph.node if node.name == "excite")
    makers = {node.output[0]: node for node in casts(reduced.model)}
    assert all(types_of(reduced.model)[makers[name].input[0]] == fmt.elem for name in excite.input)
    readers = {node.input[0]: node for node in casts(reduced.model)}
    assert types_of(reduced.model)[readers[excite.output[0]].output[0]] == fmt.elem
