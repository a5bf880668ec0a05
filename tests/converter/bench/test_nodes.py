"""Plugin nodes timed alone have the inputs of the running model; missing ones are reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.converter.models import parsed
from trtsmith.converter.bench.native_bench import node_cases
from trtsmith.converter.bench.node_worker import MESSAGE, ratio_of, tried
from trtsmith.converter.rewrite.rewrite import rewrite


def test_each_node_is_found_with_what_flows_into_it(tmp_path: Path) -> None:
    """y = inverse(2 x); z = inverse(y) in float16: the second node's input is the first one's output, rounded."""
    text = """(float[n,2,2] x) => (float16[] z) {
        twice = Add (x, x) [first] y = trt.plugins.Inverse (twice)
        half = Cast <to = 10> (y) [second] z = trt.plugins.Inverse (half) }"""
    x = np.array([[[2.0, 0.0], [1.0, 4.0]]] * 3, np.float32)
    rewritten = rewrite(parsed(tmp_path / "m.onnx", text))
    first, second = node_cases(rewritten.model, {"x": x}, rewritten.io_types)
    assert (first.node, first.op.name, first.dtype) == ("first/MatrixInverse", "MatrixInverse", "float32")
    assert np.array_equal(first.generated["x"], 2 * x)
    assert (second.node, second.dtype) == ("second/MatrixInverse", "float16")
    assert np.allclose(second.generated["x"].astype(float), np.linalg.inv(2 * x), rtol=1e-3)
    assert second.case.inputs(np.random.default_rng(0)).keys() == {"x"}


def test_the_type_is_that_of_the_first_input(tmp_path: Path) -> None:
    text = "(float16[3] x, bool[3] c) => (float16[k] y) { [some] y = Compress <axis = 0> (x, c) }"
    feeds = {"x": np.array([1.5, -2.0, 3.0], np.float16), "c": np.array([True, False, True])}
    (found,) = node_cases(rewrite(parsed(tmp_path / "m.onnx", text)).model, feeds)
    assert (found.op.name, found.dtype, dict(found.case.fields)) == ("SelectedSlices", "float16", {"axis": 0})
    assert found.generated["condition"].dtype == np.bool_


def test_a_model_without_plugin_nodes_is_not_run(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[2] x) => (float[2] y) { y = Relu (x) }")
    assert node_cases(model, {}) == []


def test_the_ratio_is_natives_time_over_the_plugins() -> None:
    assert ratio_of({"median_us": 2.0}, {"median_us": 7.0}) == 3.5
    assert ratio_of({"unavailable": "x"}, {"median_us": 7.0}) is None
    assert ratio_of({"median_us": 2.0}, {}) is None


def test_what_fails_is_a_finding() -> None:
    def fails() -> dict[str, float]:
        raise RuntimeError("first line " + "x" * 300 + "\nsecond line")

    found = tried(fails)
    assert found["unavailable"].startswith("RuntimeError: first line xxx")
    assert len(found["unavailable"]) == MESSAGE and "second" not in found["unavailable"]
    assert tried(lambda: {"median_us": 1.0}) == {"median_us": 1.0}
