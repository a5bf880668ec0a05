"""The verdict on reduced graphs: about what TensorRT computes, against the original, and able to say no."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.converter.rewrite.precision.networks import Changed, network, normal, reduce_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.verify.reduced import run_reduced, verify_reduced
from trtsmith.converter.verify.tolerances import parse_tolerances

BODY = """(float[N,16] x) => (float[N,8] y, int64[N] best) {
    [m] a = MatMul (x, w)
    [r] b = Relu (a)
    [n] y = MatMul (b, v)
    [best] best = ArgMax <axis = 1, keepdims = 0> (y) }"""


def both(folder: Path, flag: str, reduced_io: bool = False) -> tuple[Model, Changed, dict[str, np.ndarray]]:
    model = network(folder, BODY, {"w": normal(16, 16), "v": normal(16, 8, seed=1)})
    reduced = reduce_model(model, FORMATS[flag], reduced_io=reduced_io)
    return model, reduced, {"x": normal(50, 16, seed=2)}


@pytest.mark.parametrize("reduced_io", [False, True])
@pytest.mark.parametrize("flag", FORMATS)
def test_a_right_graph_agrees_and_the_precision_is_named(tmp_path: Path, flag: str, reduced_io: bool) -> None:
    model, reduced, feeds = both(tmp_path, flag, reduced_io)
    verdict = verify_reduced(model, reduced.model, feeds, "generated", flag, io_types=reduced.io_types)
    assert verdict.passed and flag in verdict.reason and not verdict.engine_run
    error = next(c.relative for c in verdict.comparisons if c.output == "y")
    assert 2.0 ** -(FORMATS[flag].digits + 3) < error < 2.0 ** -(FORMATS[flag].digits - 3)


LAYER_NORM = """
    mean = ReduceMean (a, axes) c = Sub (a, mean) squares = Pow (c, two) v = ReduceMean (squares, axes)
    e = Add (v, small) r = Sqrt (e)"""
"""A layer norm written out: what is between the nodes that the pass keeps in float32 is float32 as well."""
L2_NORM = "c = Identity (a) squares = Mul (a, a) v = ReduceSum (squares, axes) r = Sqrt (v)"


@pytest.mark.parametrize("norm", [LAYER_NORM, L2_NORM])
def test_what_stays_in_float32_is_not_rounded_in_the_allowance(norm: str, tmp_path: Path) -> None:
    """Squares of values above 256 are infinite in float16: so rounded, all of the output would be zero."""
    body = (
        f"(float[N,64] x) => (float[N,8] y) {{ a = MatMul (x, w) {norm} n = Div (c, r) y = MatMul (n, k) }}"
    )
    weights = {"w": normal(64, 64, scale=100), "k": normal(64, 8), "axes": np.array([1])}
    weights |= {"two": np.array(2, np.float32), "small": np.array(1e-5, np.float32)}
    model, feeds = network(tmp_path, body, weights), {"x": normal(50, 64, seed=2)}
    reduced = reduce_model(model, FORMATS["fp16"], seen={"squares": 1e7})
    kept = [node.node for node in reduced.report.kept]
    verdict = verify_reduced(model, reduced.model, feeds, "generated", "fp16", exact=kept)
    assert verdict.passed and verdict.comparisons[0].relative < 1e-3, verdict.reason


@pytest.mark.parametrize("flag", FORMATS)
def test_a_wrong_weight_is_seen(tmp_path: Path, flag: str) -> None:
    model, reduced, feeds = both(tmp_path, flag)
    proto = onnx.ModelProto()
    proto.CopyFrom(reduced.model.proto)
    tensor = next(t for t in proto.graph.initializer if t.name.startswith("v/"))
    values = np.array(reduced.model.array(tensor))
    values[3, 2] += 0.5
    wrong = onnx.numpy_helper.from_array(values, tensor.name)
    tensor.CopyFrom(wrong)
    verdict = verify_reduced(model, reduced.model.with_proto(proto), feeds, "generated", flag)
    assert verdict.status == "disagree" and "y: relative error" in verdict.reason


def test_an_overflow_is_seen(tmp_path: Path) -> None:
    model, reduced, feeds = both(tmp_path, "fp16")
    verdict = verify_reduced(model, reduced.model, {"x": feeds["x"] * 1e5}, "generated", "fp16")
    assert not verdict.passed


def test_the_user_s_tolerances_hold(tmp_path: Path) -> None:
    model, reduced, feeds = both(tmp_path, "bf16")
    strict = parse_tolerances(["1e-6"], [])
    assert verify_reduced(model, reduced.model, feeds, "generated", "bf16", strict).status == "disagree"


def test_outputs_of_another_framework_are_the_reference(tmp_path: Path) -> None:
    model, reduced, feeds = both(tmp_path, "fp16")
    right = run_reduced(reduced.model, feeds)
    assert verify_reduced(model, reduced.model, feeds, "given", "fp16", expected=right).passed
    wrong = {**right, "y": right["y"] + 1}
    assert not verify_reduced(model, reduced.model, feeds, "given", "fp16", expected=wrong).passed


def test_interface_types_are_rounded_to(tmp_path: Path) -> None:
    _, reduced, feeds = both(tmp_path, "bf16", reduced_io=True)
    found = run_reduced(reduced.model, feeds, reduced.io_types)["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, found.astype(ml_dtypes.bfloat16).astype(np.float32))
    inside = run_reduced(
        reduced.model, feeds, tuple(replace(io, before="bfloat16") for io in reduced.io_types)
    )
    assert inside["y"].dtype == ml_dtypes.bfloat16


def test_what_cannot_be_run_is_not_comparable(tmp_path: Path) -> None:
    model = network(tmp_path, "(float[N] x) => (float[N] y) { y = trtsmith.Nobody (x) }")
    verdict = verify_reduced(model, model, {"x": np.ones(3, np.float32)}, "generated", "fp16")
    assert verdict.status == "not comparable"
