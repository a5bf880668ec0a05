"""--precision fp32: a half-precision network in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import T, casts, network, normal, types_of, widen_model
from trtsmith.converter.model.ort import run

BODY = """(float16[4,8] x, float[8,8] f) => (float16[4,8] y, float[4,8] z) {
    [m] a = MatMul (x, w)
    [k] k = Constant <value = float16[1] {14336}> ()
    [s] b = Mul (a, k)
    [e] y = Relu (b)
    [c] c = Cast <to = 1> (b)
    [d] d = Cast <to = 10> (c)
    [e2] e = Cast <to = 1> (d)
    [n] z = MatMul (e, f) }"""


def test_every_value_is_float32_and_the_interface_is_kept(tmp_path: Path) -> None:
    w = normal(8, 8).astype(np.float16)
    model = network(tmp_path, BODY, {"w": w})
    widened = widen_model(model)
    types = types_of(widened.model)
    graph = widened.model.proto.graph
    edge = {"x": T.FLOAT16, "y": T.FLOAT16, "f": T.FLOAT, "z": T.FLOAT}
    assert {v.name: types[v.name] for v in (*graph.input, *graph.output)} == edge
    assert {n for n, elem in types.items() if elem == T.FLOAT16} == {"x", "y"}
    assert [(c.input[0], c.output[0]) for c in casts(widened.model) if c.name not in ("c", "d", "e2")] == [
        ("x", "x/float32"), ("y/float32", "y"),
    ]  # fmt: skip
    assert (
        widened.report.precision == "float32" and widened.report.reduced == 5 and widened.report.weights == 2
    )
    feeds = {"x": normal(4, 8, seed=3).astype(np.float16), "f": normal(8, 8, seed=4)}
    found = run(widened.model, feeds)
    product = feeds["x"].astype(np.float32) @ w.astype(np.float32) * 0.5
    np.testing.assert_allclose(found["z"], product @ feeds["f"], rtol=1e-4, atol=1e-5)  # no rounding between
    np.testing.assert_array_equal(found["y"], np.maximum(product, 0).astype(np.float16))


def test_the_interface_too_when_asked(tmp_path: Path) -> None:
    model = network(tmp_path, BODY, {"w": normal(8, 8).astype(np.float16)})
    widened = widen_model(model, wide_io=True)
    assert T.FLOAT16 not in types_of(widened.model).values()
    assert [(io.name, io.before, io.after) for io in widened.io_types] == [
        ("x", "float16", "float32"), ("y", "float16", "float32"),
    ]  # fmt: skip


@pytest.mark.parametrize("wide_io", [False, True])
def test_a_float32_network_comes_back_as_it_is(tmp_path: Path, wide_io: bool) -> None:
    model = network(tmp_path, "(float[N] x) => (float[N] y) { y = Relu (x) }")
    widened = widen_model(model, wide_io=wide_io)
    assert widened.model is model and widened.report.reduced == 0 and widened.io_types == ()
