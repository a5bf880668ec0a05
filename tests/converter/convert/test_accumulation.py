"""--accumulate: which nodes sum in float32 for a TensorRT that sums float16 products in float16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import trtsmith
from tests.converter.models import written
from tests.converter.rewrite.precision.networks import T, made_in, network, normal
from tests.converter.verify.judging import judged_engine_of
from trtsmith.converter.convert import accumulation
from trtsmith.converter.convert.accumulation import BEARABLE
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.bundle.origin import origin_of
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.precision.sum_noise import ROUNDING, with_float16_sums
from trtsmith.converter.rewrite.precision.sums import LONG_SUM, OFF_SUM
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT
from trtsmith.converter.verify import candidates
from trtsmith.converter.verify.baseline import Arithmetic
from trtsmith.converter.verify.candidates import reduced_graph
from trtsmith.converter.verify.reduced import run_reduced
from trtsmith.converter.verify.sets import InputSet

CHANNELS = (32, 32, 64, 64, 64, 128, 128, 128, 128, 128, 128, 128)
"""Of twelve 3x3 convolutions: all but the first sum 288 products and more."""


def cnn(path: Path) -> Path:
    body, weights, inputs, last = "", {}, 3, "x"
    for index, outputs in enumerate(CHANNELS):
        stride = 2 if index in (2, 5) else 1
        weights[f"w{index}"] = normal(outputs, inputs, 3, 3, scale=(2 / (9 * inputs)) ** 0.5, seed=index)
        attributes = f"<pads = [1, 1, 1, 1], strides = [{stride}, {stride}]>"
        body += f"[conv{index}] c{index} = Conv {attributes} ({last}, w{index}) "
        last = f"r{index}" if index < len(CHANNELS) - 1 else "y"
        body += f"{last} = Relu (c{index}) "
        inputs = outputs
    return written(path, f"(float[1, 3, 32, 32] x) => (float[1, 128, 8, 8] y) {{ {body} }}", weights)


BUILT = [
    ("", 0, ""),
    ("--precision fp16", 0, "sums: 0 of 11 nodes of more than 256 products kept in float32: summed in float16, output 'y'"),
    ("--precision fp16 --accumulate fp16", 0, "sums: 0 of 11 nodes of more than 256 products kept in float32 (--acc"),
    ("--precision fp16 --accumulate fp32", 11, "sums: 11 of 11 nodes of more than 256 products kept in float32"),
]  # fmt: skip


def test_a_plain_network_is_float16_all_of_it_and_its_engine_half_as_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, sizes = cnn(tmp_path / "m.onnx"), []
    for flags, kept, line in BUILT:
        engine = tmp_path / "m.plan"
        built_for = ("--flavour", "tensorrt_rtx", "--target", "sm86")
        ran = trtsmith(capsys, "convert", "-q", model, "-o", engine, *built_for, *flags.split())
        assert ran.code == 0, ran.err
        assert line in ran.out and ("sums:" in ran.out) is bool(flags)
        assert ("; --accumulate " in ran.out) is bool(flags)  # which flag decides otherwise
        report = json.loads((tmp_path / "m.manifest.json").read_text())["precision_report"] or {"kept": []}
        assert len(report["kept"]) == kept
        if flags == "--precision fp16":
            told = report["sums"]
            assert (told["accumulate"], told["long"], told["kept"]) == ("auto", 11, 0)
            assert 1e-3 < told["error"]["error"] < told["error"]["allowed"] == BEARABLE
            assert "in fp16 against the original, its sums emulated" in ran.out
            did = origin_of(engine).reduction
            assert did is not None and did.float16_sums
        sizes.append(engine.stat().st_size)
    plain, auto, fp16, fp32 = sizes
    assert auto == fp16 <= 0.6 * plain and fp32 > 0.9 * plain


def test_how_far_apart_indices_are_as_numbers_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "(float[8, 512] x) => (int64[8] i) { y = MatMul (x, w) i = ArgMax <axis=1, keepdims=0> (y) }"
    model = written(tmp_path / "m.onnx", text, {"w": normal(512, 10)})
    ran = trtsmith(capsys, "check", model, "--precision", "fp16", "--flavour", "tensorrt_rtx")
    assert ran.code == 0 and "precision: " in ran.out and "sums:" not in ran.out


def test_whole_numbers_beside_real_ones_decide_nothing(tmp_path: Path) -> None:
    """A bin or an index changes with the least rounding of the value that chose it."""
    proto = load_model(cnn(tmp_path / "m.onnx")).copied()
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(100), "bins"))
    proto.graph.node.append(onnx.helper.make_node("Mul", ["y", "bins"], ["scaled"]))
    proto.graph.node.append(onnx.helper.make_node("Cast", ["scaled"], ["bin"], to=onnx.TensorProto.INT64))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("bin", 7, [1, 128, 8, 8]))
    onnx.save(proto, tmp_path / "binned.onnx")
    model, feeds = load_model(tmp_path / "binned.onnx"), {"x": normal(1, 3, 32, 32)}
    narrow, report = reduced(model, feeds)
    changed = run_reduced(narrow, feeds, float16_sums=True)["bin"] != run(model, feeds)["bin"]
    assert changed.mean() > BEARABLE
    assert report.sums is not None and report.sums.kept == 0
    assert report.sums.error is not None and report.sums.error.output == "y"


def test_verify_allows_what_float16_sums_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is off by what its sums cost, and one that is off by three times that."""
    model = load_model(cnn(tmp_path / "m.onnx"))
    feeds = {"x": normal(1, 3, 32, 32)}
    exact = run(model, feeds)["y"]
    found = run_reduced(reduced(model, feeds)[0], feeds, float16_sums=True)["y"]

    def passed(output: np.ndarray, precision: str, nodes: tuple[str, ...] = ()) -> bool:
        made = RunResult(None, ({"y": output},), 0.5)  # type: ignore[arg-type]
        monkeypatch.setattr(candidates, "run_engine", lambda *_, **__: made)
        sets, request = (InputSet("", feeds),), RunRequest(tmp_path / "m.plan")
        return judged_engine_of(model, request, sets, precision, exact=nodes).passed

    assert passed(found, "fp16-sums") and not passed(found, "fp16")
    assert not passed(exact + 3 * (found - exact), "fp16-sums")
    assert not passed(found, "fp16-sums", tuple(f"conv{index}" for index in range(len(CHANNELS))))


def reduced(
    model: Model, feeds: dict[str, np.ndarray] | None, accumulate: str = ""
) -> tuple[Model, PrecisionReport]:
    done = in_precision(rewrite(model, RTX), PrecisionRequest("fp16", accumulate=accumulate), feeds)
    assert done.precision is not None
    return done.model, done.precision


DIFFERENCE = """(float[N,2048] x, float[N,300] s) => (float[N,64] y, float[N,64] z) {
    [a] a = MatMul (x, k)
    [b] b = MatMul (x, m)
    [difference] y = Sub (a, b)
    [other] z = MatMul (s, n)
}"""


def difference(folder: Path) -> tuple[Model, dict[str, np.ndarray]]:
    """Two long sums that are nearly the same: what float16 takes from either is a large part of the difference."""
    k = normal(2048, 64).astype(np.float16).astype(np.float32)
    weights = {"k": k, "m": (k + normal(2048, 64, scale=0.05, seed=1)), "n": normal(300, 64)}
    feeds = {"x": normal(32, 2048, scale=0.1), "s": normal(32, 300)}
    return network(folder, DIFFERENCE, weights), feeds


def test_the_longest_sums_stay_in_float32_where_an_output_needs_it(tmp_path: Path) -> None:
    model, feeds = difference(tmp_path)
    made, report = reduced(model, feeds)
    assert {k.node for k in report.kept} <= {"a", "b"} and {k.reason for k in report.kept} == {OFF_SUM}
    types = made_in(made)
    assert T.FLOAT in (types["a"], types["b"]) and types["other"] == T.FLOAT16
    sums = report.sums
    assert sums is not None and sums.error is not None and sums.left is not None and sums.error.output == "y"
    assert sums.error.error > sums.error.allowed >= sums.left.error
    assert "kept in float32: with all sums in float16, output 'y' off by" in sums.line()
    assert "--accumulate fp16 keeps none" in sums.line()
    assert not reduced(model, feeds, "fp16")[1].kept
    assert {k.reason for k in reduced(model, feeds, "fp32")[1].kept} == {LONG_SUM}


def test_sums_that_leave_the_range_stay_in_float32(tmp_path: Path) -> None:
    body = "(float[N,512] x) => (float[N,8] y) { [large] a = MatMul (x, k) [small] y = MatMul (a, m) }"
    weights = {"k": np.full((512, 8), 100, np.float32), "m": np.full((8, 8), 1e-3, np.float32)}
    _, report = reduced(network(tmp_path, body, weights), {"x": np.ones((2, 512), np.float32)})
    assert (
        "'a' reached 5.12e+04 on the inputs; too near to float16's 65504"
        in {k.node: k.reason for k in report.kept}["large"]
    )


def test_without_inputs_no_sum_is_tried_and_that_is_said(tmp_path: Path) -> None:
    _, report = reduced(difference(tmp_path)[0], None)
    assert not report.kept and report.sums is not None
    assert (
        "0 of 3 nodes" in report.sums.line()
        and "untried: the sizes of the inputs are not known" in report.sums.line()
    )


def test_sums_that_rounding_hides_are_not_tried_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict compares such outputs in other ways, as rows of detections: they are not said to be incomparable."""
    monkeypatch.setattr(accumulation, "_allowed", lambda *_: {})
    _, report = reduced(*difference(tmp_path))
    assert report.sums is not None
    assert (
        "untried: number by number, rounding values to float16 alone changes every output"
        in report.sums.line()
    )


def test_a_tensorrt_that_sums_in_float32_has_nothing_to_say_of_sums(tmp_path: Path) -> None:
    model, feeds = difference(tmp_path)
    done = in_precision(rewrite(model, TENSORRT), PrecisionRequest("fp16"), feeds)
    assert done.precision is not None and done.precision.sums is None and not done.precision.kept


@pytest.mark.parametrize("count", [64, 256, 1024])
def test_the_noise_is_that_of_partial_sums_of_16_products_in_float16(tmp_path: Path, count: int) -> None:
    """The sums themselves are formed in numpy, as a tensor core forms them."""
    k, x = normal(count, 64).astype(np.float16), normal(256, count).astype(np.float16)
    exact = x.astype(np.float64) @ k.astype(np.float64)
    partial = np.zeros(exact.shape, np.float16)
    for first in range(0, count, 16):
        part = x[:, first : first + 16].astype(np.float64) @ k[first : first + 16].astype(np.float64)
        partial = (partial + part).astype(np.float16)
    model = network(
        tmp_path, f"(float16[N,{count}] x) => (float16[N,64] y) {{ [m] y = MatMul (x, k) }}", {"k": k}
    )
    found = run_reduced(model, {"x": x}, float16_sums=True)["y"]
    again = run_reduced(model, {"x": x}, float16_sums=True)["y"]
    assert (found == again).all()
    errors = [np.linalg.norm(y - exact) / np.linalg.norm(exact) for y in (found, partial)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1) and errors[0] > 1.4 * ROUNDING
    alone = run_reduced(model, {"x": x}, float16_sums=True, exact={"m"})["y"]
    assert np.linalg.norm(alone - exact) / np.linalg.norm(exact) == pytest.approx(ROUNDING, rel=0.1)


def test_where_products_cancel_the_noise_is_that_of_partial_sums(tmp_path: Path) -> None:
    """Of inputs that are nearly equal and weights whose sum is zero."""
    k = normal(512, 64)
    k = (k - k.mean(0)).astype(np.float16)
    x = (1 + 0.1 * normal(64, 512)).astype(np.float16)
    exact = x.astype(np.float64) @ k.astype(np.float64)
    partial = np.zeros(exact.shape, np.float16)
    for first in range(0, 512, 16):
        part = x[:, first : first + 16].astype(np.float64) @ k[first : first + 16].astype(np.float64)
        partial = (partial + part).astype(np.float16)
    off = np.linalg.norm(partial - exact)
    for body, weights in (
        ("(float16[N,512] x) => (float16[N,64] y) { y = MatMul (x, k) }", k),
        ("(float16[N,512] x) => (float16[N,64] y) { y = Gemm <transB = 1> (x, k) }", k.T.copy()),
    ):
        found = run_reduced(network(tmp_path, body, {"k": weights}), {"x": x}, float16_sums=True)["y"]
        assert np.linalg.norm(found - exact) == pytest.approx(off, rel=0.1)
    assert off > 3 * ROUNDING * np.sqrt(512 / 32) * np.linalg.norm(exact)


def test_a_convolution_of_an_image_rounds_as_often_as_one_of_eight_channels(tmp_path: Path) -> None:
    x, k = normal(1, 8, 64, 64).astype(np.float16), normal(32, 8, 8, 8).astype(np.float16)
    body = "(float16[1,{0},64,64] x) => (float16[1,32,a,b] y) {{ y = Conv <strides = [8, 8]> (x, k) }}"
    errors = []
    for channels in (3, 8):
        feeds = {"x": x[:, :channels]}
        model = network(tmp_path, body.format(channels), {"k": k[:, :channels]})
        exact, noisy = (
            run_reduced(model, feeds, float16_sums=sums)["y"].astype(np.float64) for sums in (False, True)
        )
        errors.append(np.linalg.norm(noisy - exact) / np.linalg.norm(exact))
    assert errors[0] == pytest.approx(errors[1], rel=0.1)


def test_a_graph_without_sums_of_float16_stays_as_it_is(tmp_path: Path) -> None:
    model = network(
        tmp_path, DIFFERENCE, {"k": normal(2048, 64), "m": normal(2048, 64), "n": normal(300, 64)}
    )
    assert with_float16_sums(model).model is model


def test_rows_that_are_masked_whole_leave_the_noise_of_others(tmp_path: Path) -> None:
    """Attention that is masked whole is NaN until zeros are chosen behind it."""
    k, x = normal(256, 64).astype(np.float16), normal(32, 256).astype(np.float16)
    model = network(tmp_path, "(float16[N,256] x) => (float16[N,64] y) { y = MatMul (x, k) }", {"k": k})
    x[3] = np.nan
    found = run_reduced(model, {"x": x}, float16_sums=True)["y"]
    assert np.isnan(found[3]).all() and np.isfinite(np.delete(found, 3, 0)).all()


def test_sizes_that_the_graph_computes_say_how_many_products_are_summed(tmp_path: Path) -> None:
    """As PyTorch's older exporter writes heads: 16 products have the noise of their rounding, not that of many."""
    body = """(float16[n,16,m] x) => (float16[k,16,16] y) {
        s = Shape (x)  a = Gather (s, one)  t = Gather (s, two)  h = Div (t, two)
        q = Concat <axis = 0> (minus, a, h)
        p = Reshape (x, q)  r = Transpose <perm = [0, 2, 1]> (p)  y = MatMul (p, r) }"""
    values = {"one": [1], "two": [2], "minus": [-1]}
    model = network(tmp_path, body, {name: np.array(value, np.int64) for name, value in values.items()})
    assert with_float16_sums(model, feeds={"x": normal(2, 16, 32).astype(np.float16)}).model is model
    assert with_float16_sums(model).model is not model


def test_a_small_result_beside_large_ones_has_small_noise(tmp_path: Path) -> None:
    """As the divisors of linear attention: sums of what is positive, in rows beside rows of large numbers."""
    k = np.abs(normal(512, 64)).astype(np.float16)
    x = (np.abs(normal(64, 512)) * np.logspace(-3, 0, 64)[:, None]).astype(np.float16)
    model = network(
        tmp_path, "(float16[N,512] x, float16[512,64] k) => (float16[N,64] y) { y = MatMul (x, k) }"
    )
    found = run_reduced(model, {"x": x, "k": k}, float16_sums=True)["y"]
    exact = x.astype(np.float64) @ k.astype(np.float64)
    assert np.abs(found / exact - 1).max() < 0.02


def test_the_graph_that_decided_the_sums_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict takes the outputs of that run, for the same graph and the same inputs only."""
    model = network(
        tmp_path, "(float[N,300] x) => (float[N,64] y) { y = MatMul (x, k) }", {"k": normal(300, 64)}
    )
    feeds = {"x": normal(4, 300)}
    done = in_precision(rewrite(model, RTX), PrecisionRequest("fp16"), feeds)
    assert done.tried is not None and done.precision is not None and done.precision.sums is not None
    runs: list[dict[str, np.ndarray]] = []

    def run_anew(
        graph: Model, one: dict[str, np.ndarray], *rest: Any, **options: Any
    ) -> dict[str, np.ndarray]:
        runs.append(one)
        return run_reduced(graph, one, *rest, **options)

    monkeypatch.setattr("trtsmith.converter.verify.candidates.run_reduced", run_anew)
    candidate = reduced_graph(done.model, done.io_types, Arithmetic("fp16-sums"), done.tried)
    (same,) = candidate.run([{"x": feeds["x"].copy()}]).outputs
    assert not runs
    (other,) = candidate.run([{"x": feeds["x"] + 1}]).outputs
    assert len(runs) == 1 and (same["y"] != other["y"]).all()
    plain = reduced_graph(done.model, done.io_types, Arithmetic("fp16"), done.tried)
    assert (plain.run([feeds]).outputs[0]["y"] != same["y"]).any() and len(runs) == 2
    np.testing.assert_array_equal(
        run_reduced(done.model, feeds, done.io_types, float16_sums=True)["y"], same["y"]
    )


SMALL = """(float[N,64] x, float[N,64] small) => (float[N,64] y) {{
    a = MatMul (x, k)
    b = MatMul (small, k)
    c = Relu (b)
    {end}
}}"""


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        ("y = Add (a, c)", False),
        ("s = Mul (c, million)\n y = Add (a, s)", True),
        (
            "p, q = Split <axis = 1, num_outputs = 2> (a)\n r, s = Split <axis = 1, num_outputs = 2> (c)\n"
            "y = Concat <axis = 1> (p, s)",
            True,
        ),
    ],
)
def test_what_is_below_the_range_stays_where_an_output_needs_it(tmp_path: Path, end: str, kept: bool) -> None:
    """Values of 1e-8 that are added to values of 1 may be zero. Those that are scaled up, or stand beside, may not."""
    weights = {"k": normal(64, 64, scale=0.1), "million": np.float32(1e8)}
    model = network(tmp_path, SMALL.format(end=end), weights)
    _, report = reduced(model, {"x": normal(8, 64), "small": normal(8, 64, scale=1e-8)})
    assert any("stayed below" in one.reason for one in report.kept) == kept
    assert report.sums is not None and report.sums.error is not None
