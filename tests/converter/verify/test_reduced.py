"""The verdict on reduced graphs, and quantized references: close to TensorRT, and able to fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.converter.models import parsed, written
from tests.converter.rewrite.precision.networks import Changed, network, normal, reduce_model
from tests.converter.verify.judging import judged_engine_of, judged_graph, judged_in
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify import candidates
from trtsmith.converter.verify.baseline import Baseline
from trtsmith.converter.verify.reduced import run_reduced
from trtsmith.converter.verify.sensitivity import with_own_definitions
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import Verdict

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
    verdict = judged_in(flag, model, reduced.model, feeds, io_types=reduced.io_types)
    assert verdict.passed and flag in verdict.reason and not verdict.engine_run
    error = next(c.relative for c in verdict.comparisons if c.output == "y")
    assert 2.0 ** -(FORMATS[flag].digits + 3) < error < 2.0 ** -(FORMATS[flag].digits - 3)


def test_before_a_graph_disagrees_values_are_rounded_other_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _, feeds = both(tmp_path, "fp16")
    (tmp_path / "off").mkdir()
    weights = {"w": 1.02 * normal(16, 16), "v": normal(16, 8, seed=1)}
    off = reduce_model(network(tmp_path / "off", BODY, weights), FORMATS["fp16"])
    assert judged_in("fp16", model, off.model, feeds).status == "disagree"
    way = run_reduced(off.model, feeds)
    first = Baseline.rounded
    monkeypatch.setattr(Baseline, "rounded", lambda *told: [way] if len(told) > 2 else first(*told))
    assert judged_in("fp16", model, off.model, feeds).passed


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
    verdict = judged_in("fp16", model, reduced.model, feeds, exact=kept)
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
    verdict = judged_in(flag, model, reduced.model.with_proto(proto), feeds)
    assert verdict.status == "disagree" and "y: relative error" in verdict.reason


def test_an_overflow_is_seen(tmp_path: Path) -> None:
    model, reduced, feeds = both(tmp_path, "fp16")
    verdict = judged_in("fp16", model, reduced.model, {"x": feeds["x"] * 1e5})
    assert not verdict.passed


def test_the_user_s_tolerances_hold(tmp_path: Path) -> None:
    model, reduced, feeds = both(tmp_path, "bf16")
    strict = parse_tolerances(["1e-6"], [])
    assert judged_in("bf16", model, reduced.model, feeds, strict).status == "disagree"


def test_outputs_of_another_framework_are_the_reference(tmp_path: Path) -> None:
    model, reduced, feeds = both(tmp_path, "fp16")
    right = run_reduced(reduced.model, feeds)
    assert judged_in("fp16", model, reduced.model, feeds, expected=right).passed
    wrong = {**right, "y": right["y"] + 1}
    assert not judged_in("fp16", model, reduced.model, feeds, expected=wrong).passed


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
    verdict = judged_in("fp16", model, model, {"x": np.ones(3, np.float32)})
    assert verdict.status == "not comparable"


def quantised(folder: Path, layers: int = 4) -> Path:
    """Convolutions between QuantizeLinear and DequantizeLinear, which onnxruntime fuses into QLinearConv."""
    random, body, value = np.random.default_rng(0), "", "x"
    weights = {f"w{i}": random.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8) for i in range(layers)}
    for i in range(layers):
        body += f"""q{i} = QuantizeLinear ({value}, step, zero) d{i} = DequantizeLinear (q{i}, step, zero)
            f{i} = DequantizeLinear (w{i}, small, zero) c{i} = Conv <pads = [1, 1, 1, 1]> (d{i}, f{i}) """
        value = f"c{i}"
    text = f"""(float[1, 8, 12, 12] x) => (float[1, 8, 12, 12] y)
        <float step = {{0.02}}, float small = {{0.004}}, int8 zero = {{0}}> {{
        {body} last = QuantizeLinear ({value}, step, zero) y = DequantizeLinear (last, step, zero) }}"""
    return written(folder / "m.onnx", text, weights)


FEEDS = {"x": np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype(np.float32) / 9}


def with_relu(folder: Path) -> Model:
    """A Relu before a QuantizeLinear to float8, a signed type."""
    text = """(float[4] x) => (float[4] y) <float step = {0.5}> {
        r = Relu (x) q = QuantizeLinear (r, step, zero) y = DequantizeLinear (q, step, zero) }"""
    return parsed(folder / "m.onnx", text, {"zero": np.zeros((), ml_dtypes.float8_e4m3fn)}, opset=19)


def test_no_relu_is_lost_before_a_quantised_value(tmp_path: Path) -> None:
    model, feeds = with_relu(tmp_path), {"x": np.array([-4, -1, 1, 4], np.float32)}
    assert run(model, feeds)["y"].tolist() == [0, 0, 1, 4]
    lost = {"y": np.array([-4, -1, 1, 4], np.float32)}
    assert judged_graph(model, model, feeds).passed
    assert judged_graph(model, model, feeds, expected=lost).status == "disagree"


def test_an_engine_is_compared_with_the_run_without_the_optimiser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(quantised(tmp_path))
    optimised, plain = (run(model, FEEDS, optimise=optimise) for optimise in (True, False))
    assert not np.array_equal(optimised["y"], plain["y"]), "onnxruntime's optimiser changes nothing any more"

    def verdict_on(outputs: dict[str, np.ndarray]) -> Verdict:
        result = SimpleNamespace(outputs=(outputs,), warnings=(), unsteady={})
        monkeypatch.setattr(candidates, "run_engine", lambda *_, **__: result)
        sets, request = (InputSet("", FEEDS),), RunRequest(tmp_path / "e.plan")
        return judged_engine_of(model, request, sets, "fp32")

    assert verdict_on(plain).passed and verdict_on(plain).comparisons[0].relative == 0
    assert verdict_on(optimised).comparisons[0].relative > 0  # and no further off than other right roundings
    assert verdict_on({"y": np.roll(plain["y"], 1, axis=2)}).status == "disagree"


def test_operators_that_have_no_run_but_the_fused_one_are_named(tmp_path: Path) -> None:
    model = network(tmp_path, "(float[3] x) => (float[3] y) { y = Relu (x) }")
    verdict = judged_graph(model, model, {"x": np.ones(3, np.float32)})
    assert with_own_definitions(model, verdict) is verdict
    model.proto.graph.node.add(op_type="QLinearAdd", domain="com.microsoft")
    reason = with_own_definitions(model, verdict).reason
    assert "onnxruntime fuses quantised operators into QLinearAdd" in reason


BF16_BODY = """<ir_version: 10, opset_import: ["" : 18]>
g (bfloat16[4,16] x, bool c) => (bfloat16[4,8] y) <bfloat16[16,8] w> {
    y = If (c) <
        then_branch = a () => (bfloat16[4,8] p) { m = MatMul (x, w) p = Softmax <axis = -1> (m) },
        else_branch = b () => (bfloat16[4,8] q) { n = MatMul (x, w) q = Neg (n) }> }"""


def test_a_model_in_bfloat16_is_run_with_values_rounded_to_it(tmp_path: Path) -> None:
    """onnxruntime has no such kernels on a CPU. A graph with another weight disagrees."""
    proto = onnx.parser.parse_model(BF16_BODY)
    w = normal(16, 8).astype(ml_dtypes.bfloat16)
    x = normal(4, 16, seed=1).astype(ml_dtypes.bfloat16)
    models = []
    for number, weight in enumerate((w, w + w)):
        graph = onnx.ModelProto.FromString(proto.SerializeToString())
        graph.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        onnx.save(graph, tmp_path / f"{number}.onnx")
        models.append(load_model(tmp_path / f"{number}.onnx"))
    right, wrong = models
    products = (x.astype(np.float32) @ w.astype(np.float32)).astype(ml_dtypes.bfloat16)
    found = run(reference(right), {"x": x, "c": np.array(False)})["y"]
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, -products)
    feeds = {"x": x, "c": np.array(True)}
    assert judged_graph(right, right, feeds).agrees
    assert judged_graph(right, wrong, feeds).status == "disagree"
