"""Reduced weights are converted once, duplicated only for readers of both types, and kept if they do not fit."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.converter.rewrite.precision.networks import T, casts, made_in, network, normal, reduce_model
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.precision.constants import unfit
from trtsmith.converter.rewrite.precision.formats import BF16, FP16

CHAIN = """(float[N,64] x) => (float[N,64] y) {
    [a] a = MatMul (x, w)
    [b] b = MatMul (a, w)
    [s] c = Softmax (b)
    [m] y = Mul (c, w0) }"""


def initializers(model: Model) -> dict[str, np.ndarray]:
    return {t.name: model.array(t) for t in model.proto.graph.initializer}


def test_a_weight_is_converted_once_and_read_twice(tmp_path: Path) -> None:
    w = normal(64, 64)
    reduced = reduce_model(network(tmp_path, CHAIN, {"w": w, "w0": normal(64)}), FP16)
    found = initializers(reduced.model)
    assert set(found) == {"w/float16", "w0"}  # w itself is gone; w0 is read by what follows the Softmax
    np.testing.assert_array_equal(found["w/float16"], w.astype(np.float16))
    assert reduced.report.weights == 1
    assert not [c for c in casts(reduced.model) if c.input[0].startswith("w")]


def test_a_weight_that_both_types_read_is_there_twice(tmp_path: Path) -> None:
    body = "(float[8,8] x) => (float[8,8] y) { [a] a = MatMul (x, w)\n [p] y = Pow (a, w) }"
    w = np.abs(normal(8, 8))
    reduced = reduce_model(network(tmp_path, body, {"w": w}), BF16)
    found = initializers(reduced.model)
    np.testing.assert_array_equal(found["w"], w)
    assert found["w/bfloat16"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found["w/bfloat16"], w.astype(ml_dtypes.bfloat16))


def test_constant_nodes_are_weights_too(tmp_path: Path) -> None:
    body = """(float[2,8] x) => (float[2,1] y) {
        k = Constant <value = float[8,1] {1.0, 0.1, 3.0, -2.0, 5.0, 6.0, 7.0, 8.0}> ()
        [m] y = MatMul (x, k) }"""
    reduced = reduce_model(network(tmp_path, body), FP16)
    assert "Constant" not in {n.op_type for n in reduced.model.proto.graph.node}
    expected = np.array([[1, 0.1, 3, -2, 5, 6, 7, 8]], np.float16).T
    np.testing.assert_array_equal(initializers(reduced.model)["k/float16"], expected)


def test_large_weights_go_through_a_file_that_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    w = normal(300, 300)
    body = "(float[N,300] x) => (float[N,300] y) { [a] y = MatMul (x, w) }"
    reduced = reduce_model(network(tmp_path, body, {"w": w}), FP16)
    assert list(scratch.iterdir()) == []
    assert reduced.model.proto.ByteSize() < 2000  # the numbers are not in the proto
    save_model(reduced.model, tmp_path / "saved.onnx")
    saved = load_model(tmp_path / "saved.onnx")
    np.testing.assert_array_equal(initializers(saved)["w/float16"], w.astype(np.float16))


def test_no_room_for_weights_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    body = "(float[N,300] x) => (float[N,300] y) { [a] y = MatMul (x, w) }"
    with pytest.raises(UsageError, match="weights of the rewritten graph cannot be written") as caught:
        reduce_model(network(tmp_path, body, {"w": normal(300, 300)}), FP16)
    assert "TMPDIR" in caught.value.problems[0].fix


@pytest.mark.parametrize(
    ("array", "said"),
    [
        ([1.0, 70000.0], "7e+04 is beyond float16's 65504"),
        ([0.0, 1e-6], "normal range"),
        ([1e-30], "normal range"),
        ([0.0, 0.0], ""),
        ([1e-6, 1.0], ""),
        ([65504.0], ""),
        ([-np.inf, 1.0], ""),
        ([np.nan, 1.0], ""),
        ([], ""),
    ],
)
def test_what_float16_does_not_hold(array: list[float], said: str) -> None:
    found = unfit(np.array(array, np.float32), FP16)
    assert said in found and bool(said) == bool(found)


def test_bfloat16_has_the_range_of_float32() -> None:
    assert unfit(np.array([1e38, 1e-30], np.float32), BF16) == ""
    assert "beyond" in unfit(np.array([3.4e38], np.float32), BF16)


def test_a_node_with_an_unfit_constant_stays_and_others_do_not(tmp_path: Path) -> None:
    body = """(float[8,8] x) => (float[8,8] y) {
        [a] a = MatMul (x, w)
        [mask] b = Add (a, minus)
        [n] c = Relu (b)
        [m] y = MatMul (c, w) }"""
    weights = {"w": normal(8, 8), "minus": np.array([-1e9], np.float32)}
    reduced = reduce_model(network(tmp_path, body, weights), FP16)
    assert made_in(reduced.model)["mask"] == T.FLOAT
    kept = {k.node: k.reason for k in reduced.report.kept}
    assert kept == {"mask": "constant 'minus': 1e+09 is beyond float16's 65504"}
    assert made_in(reduced.model)["m"] == T.FLOAT16


def test_a_tiny_bias_beside_large_values_is_no_reason(tmp_path: Path) -> None:
    """Only once it is seen that they are large: beside a variance the same constant is an epsilon."""
    body = "(float[8,8] x) => (float[8,8] y) { [a] a = MatMul (x, w)\n [b] b = Add (a, e)\n [m] y = MatMul (b, w) }"
    model = network(tmp_path, body, {"w": normal(8, 8), "e": np.full(8, 1e-5, np.float32)})
    assert [k.node for k in reduce_model(model, FP16).report.kept] == ["b"]
    assert reduce_model(model, FP16, seen={"b": 3.0}).report.kept == ()
    assert [k.node for k in reduce_model(model, FP16, seen={"b": 1e-3}).report.kept] == ["b"]


def test_a_tiny_scale_of_a_layer_beside_large_values_is_no_reason(tmp_path: Path) -> None:
    """As the layer scales of 1e-6 that ConvNeXt begins with."""
    body = """(float[8,8] x) => (float[8,8] y) {
        [a] a = MatMul (x, w)  [s] b = Mul (a, e)  [sum] c = Add (x, b)  [m] y = MatMul (c, w) }"""
    model = network(tmp_path, body, {"w": normal(8, 8), "e": np.full(8, 1e-6, np.float32)})
    assert [k.node for k in reduce_model(model, FP16).report.kept] == ["s"]
    assert reduce_model(model, FP16, seen={"c": 3.0}).report.kept == ()
    assert [k.node for k in reduce_model(model, FP16, seen={"c": 1e-3}).report.kept] == ["s"]
    large = network(tmp_path, body, {"w": normal(8, 8), "e": np.full(8, 1e5, np.float32)})
    assert [k.node for k in reduce_model(large, FP16, seen={"c": 3.0}).report.kept] == ["s"]


@pytest.mark.parametrize("reader", ["y = Mul (b, b)", "c = Add (b, x)\n y = Div (x, c)", "y = Identity (b)"])
def test_a_tiny_scale_that_is_not_only_added_stays(tmp_path: Path, reader: str) -> None:
    body = f"(float[8,8] x) => (float[8,8] y) {{ a = MatMul (x, w)  [s] b = Mul (a, e)\n {reader} }}"
    model = network(tmp_path, body, {"w": normal(8, 8), "e": np.full(8, 1e-6, np.float32)})
    kept = [k.node for k in reduce_model(model, FP16, seen={"c": 3.0, "y": 3.0}).report.kept]
    assert "s" in kept


def test_the_model_s_own_files_are_not_touched(tmp_path: Path) -> None:
    model = network(tmp_path, CHAIN, {"w": normal(64, 64), "w0": normal(64)})
    before = (tmp_path / "network.onnx").read_bytes()
    proto = model.proto.SerializeToString()
    reduce_model(model, FP16)
    assert (tmp_path / "network.onnx").read_bytes() == before
    assert model.proto.SerializeToString() == proto
    assert os.listdir(tmp_path) == ["network.onnx"]
    onnx.checker.check_model(str(tmp_path / "network.onnx"))


@pytest.mark.parametrize("reader", ["Div (a, b)", "Reciprocal (b)", "Sqrt (b)"])
def test_a_tiny_number_that_keeps_a_divisor_from_zero_stays(tmp_path: Path, reader: str) -> None:
    """As in linear attention: large sums elsewhere say nothing of one that is zero."""
    body = f"(float[8,8] x) => (float[8,8] y) {{ [a] a = MatMul (x, w)\n [b] b = Add (a, e)\n [r] y = {reader} }}"
    model = network(tmp_path, body, {"w": normal(8, 8), "e": np.array(1e-15, np.float32)})
    reduced = reduce_model(model, FP16, seen={"b": 300.0})
    assert {"b", "r"} <= {k.node for k in reduced.report.kept} and made_in(reduced.model)["b"] == T.FLOAT
