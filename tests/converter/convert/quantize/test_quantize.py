"""--precision int8 and fp8: networks without calibration, its requirements, and plugin nodes in it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import trtsmith
from tests.converter.models import written
from tests.converter.rewrite.precision.networks import network, normal
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import InputSpec
from trtsmith.converter.convert.quantize.quantize import quantize, with_bodies, without_bodies
from trtsmith.converter.convert.quantize.quantize_worker import CalibrationReader
from trtsmith.converter.convert.quantize.samples import load_samples, split
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand

DCN = """(float[N,4,6,6] x, float[N,18,6,6] o) => (float[N,4,6,6] y) {
    [before] a = Conv (x, k)
    [dcn] b = trtsmith.DeformableConvolution <stride = [1,1], padding = [1,1,1,1], dilation = [1,1], groups = 1,
        offset_groups = 1, plugin_version = "1", plugin_namespace = "trtsmith"> (a, o, w)
    [after] y = Conv (b, k) }"""
WEIGHTS = {"k": normal(4, 4, 1, 1), "w": normal(4, 4, 3, 3)}

# Stands for nvidia-modelopt, which is not installed here: it quantizes the input of every Conv, and moves what it does not
# know into its own domain, as the real one does.
FAKE = """
import os
import numpy as np, onnx
from onnx import helper, numpy_helper
def quantize(path, quantize_mode, calibration_data_reader, nodes_to_exclude, output_path, **others):
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert others["calibration_eps"] == ["cpu"] and others["high_precision_dtype"] == "fp32"
    model = onnx.load(path)
    assert model.opset_import[0].version >= 19
    largest = 0.0
    while (feeds := calibration_data_reader.get_next()) is not None:
        largest = max(largest, float(np.abs(feeds["x"]).max()))
    scale = numpy_helper.from_array(np.array(8 * largest / 127, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(0, np.int8), "zero")
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Conv" and node.name not in nodes_to_exclude:
            value = node.input[0]
            nodes.append(helper.make_node("QuantizeLinear", [value, "scale", "zero"], [value + "_q"], value + "_q"))
            nodes.append(helper.make_node("DequantizeLinear", [value + "_q", "scale", "zero"], [value + "_d"], value + "_d"))
            node.input[0] = value + "_d"
        if node.domain:
            assert node.name in nodes_to_exclude and node.op_type in others["op_types_to_exclude"]
            node.domain = "trt.plugins"
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend([scale, zero])
    model.opset_import.append(helper.make_opsetid("trt.plugins", 1))
    if FAIL:
        raise RuntimeError("no layer of mine")
    onnx.save(model, output_path)
"""


@pytest.fixture
def modelopt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, found by this process and its children. Gives its file."""
    module = tmp_path / "fake" / "modelopt" / "onnx" / "quantization.py"
    module.parent.mkdir(parents=True)
    for folder in (module.parent, module.parent.parent):
        (folder / "__init__.py").touch()
    module.write_text(FAKE.replace("FAIL", "False"))
    monkeypatch.syspath_prepend(str(tmp_path / "fake"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'fake'}:{':'.join(sys.path)}")
    return module


def sample(seed: int) -> dict[str, np.ndarray]:
    return {"x": normal(1, 4, 6, 6, seed=seed), "o": normal(1, 18, 6, 6, seed=seed)}


@pytest.mark.skipif(importlib.util.find_spec("modelopt") is not None, reason="nvidia-modelopt is installed")
def test_without_nvidia_modelopt_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not installed") as caught:
        quantize(network(tmp_path, DCN, WEIGHTS), "int8", [sample(0)])
    assert caught.value.problems[0].fix == "pip install 'trtsmith[quantize]'"


def test_without_inputs_the_flag_and_the_shapes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="int8 needs samples for its calibration") as caught:
        quantize(network(tmp_path, DCN, WEIGHTS), "int8", None)
    problem = caught.value.problems[0]
    assert "x: [N, 4, 6, 6]" in problem.expected and "--calibration samples.npz" in problem.fix


def test_a_model_with_its_own_q_and_dq_is_left_alone(tmp_path: Path) -> None:
    body = """(float[4,8] x) => (float[4,8] y) {
        a = QuantizeLinear (x, s, z)
        b = DequantizeLinear (a, s, z)
        y = MatMul (b, w) }"""
    weights = {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8), "w": normal(8, 8)}
    model = network(tmp_path, body, weights)
    done = quantize(model, "int8", None)
    assert done.model is model and done.report.own and done.report.reduced == 1
    assert "the model's own" in done.report.summary()


def test_layers_are_quantized_and_plugin_nodes_come_back(tmp_path: Path, modelopt: Path) -> None:
    model = network(tmp_path, DCN, WEIGHTS, opset=17)
    done = quantize(model, "int8", [sample(0), sample(1)])
    nodes = {n.name: n for n in done.model.proto.graph.node}
    plugin = next(n for n in model.proto.graph.node if n.name == "dcn")
    assert (nodes["dcn"].domain, nodes["dcn"].op_type) == ("trtsmith", "DeformableConvolution")
    assert list(nodes["dcn"].attribute) == list(plugin.attribute)
    assert [n.op_type for n in done.model.proto.graph.node if n.op_type.endswith("izeLinear")] == [
        "QuantizeLinear", "DequantizeLinear", "QuantizeLinear", "DequantizeLinear",
    ]  # fmt: skip
    assert not done.model.proto.functions
    assert sorted(o.domain for o in done.model.proto.opset_import) == ["", "trtsmith"]
    assert [(k.node, k.reason) for k in done.report.kept] == [("dcn", "custom operators are not quantized")]
    assert done.report.reduced == 2 and done.model.path == model.path
    largest = max(np.abs(sample(i)["x"]).max() for i in range(2))  # both sets were seen
    scale = next(done.model.array(t) for t in done.model.proto.graph.initializer if t.name == "scale")
    assert float(scale) == pytest.approx(8 * largest / 127)
    feeds = sample(0)
    exact, actual = (run(expand(m), feeds)["y"] for m in (model, done.model))
    assert 0 < np.linalg.norm(actual - exact) / np.linalg.norm(exact) < 0.2


MIXED = """(float[N,16,8,8] x) => (float[N,8] y) {
    [conv] a = Conv (x, k) [relu] b = Relu (a) [flat] c = Flatten (b)
    [first] d = MatMul (c, w) [soft] e = Softmax (d) [last] y = MatMul (e, v) }"""


@pytest.mark.parametrize(
    ("precision", "rest"),
    [("int8,fp16", "float16"), ("fp16, int8", "float16"), ("int8+bf16", "bfloat16"), ("int8", "")],
)
def test_what_is_not_in_8_bits_is_in_16(tmp_path: Path, modelopt: Path, precision: str, rest: str) -> None:
    weights = {"k": normal(16, 16, 1, 1), "w": normal(1024, 8), "v": normal(8, 8)}
    model = written(tmp_path / "m.onnx", MIXED, weights, opset=19)
    x = normal(2, 16, 8, 8)
    shapes = {"x": [(1, 16, 8, 8), (2, 16, 8, 8), (4, 16, 8, 8)]}
    done = trtsmith.convert(
        model,
        precision=precision,  # type: ignore[arg-type]  # its aliases, too
        calibration={"x": x},
        inputs={"x": x},
        shapes=shapes,
        flavour="tensorrt_rtx",
        target="sm86",
    )
    report, graph = done.rewritten.precision, done.rewritten.model.proto.graph
    assert report is not None and done.passed and done.verdict is not None and done.verdict.cost is not None
    types = {
        v.name: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type).name
        for v in graph.value_info
    }
    made = {node.name: types.get(node.output[0]) for node in graph.node}
    assert made["x_q"] == "int8" and made["conv"] == made["relu"] == (rest or "float32")
    if rest:
        assert (report.precision, report.eight_bits, report.layers) == (rest, "int8", 1)
        assert report.summary().startswith(f"1 node in int8, {report.reduced} nodes in {rest}")


def test_a_model_of_8_bits_gets_16_for_the_rest(tmp_path: Path) -> None:
    """It is judged as one in 16 bits: nothing was calibrated here."""
    weights = {
        "s": np.array(0.1, np.float32),
        "z": np.array(0, np.int8),
        "k": normal(8, 8),
        "w": normal(8, 8),
    }
    body = """(float[4,8] x) => (float[4,8] y) { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
        a = MatMul (d, k) b = Relu (a) y = MatMul (b, w) }"""
    model = written(tmp_path / "m.onnx", body, weights, opset=19)
    done = trtsmith.convert(model, precision="int8+fp16", flavour="tensorrt_rtx", target="sm86")
    report = done.rewritten.precision
    assert report is not None and report.precision == "float16" and report.reduced and not report.eight_bits
    assert done.passed and done.verdict is not None and "in fp16 against the original" in done.verdict.reason


def test_what_the_user_keeps_is_excluded(tmp_path: Path, modelopt: Path) -> None:
    done = quantize(network(tmp_path, DCN, WEIGHTS), "int8", [sample(0)], keep=["after"])
    assert {k.node: k.reason for k in done.report.kept}["after"] == "--keep-fp32 after"
    assert next(n for n in done.model.proto.graph.node if n.name == "after").input[0] == "b"


def test_nothing_quantized_is_an_error(tmp_path: Path, modelopt: Path) -> None:
    with pytest.raises(ConversionError, match="found no layer that it computes in fp8") as caught:
        quantize(network(tmp_path, DCN, WEIGHTS), "fp8", [sample(0)], keep=["Conv"])
    assert "int8" in caught.value.problems[0].fix


@pytest.mark.parametrize(
    ("fail", "says"), [("True", "no layer of mine"), ("__import__('os')._exit(9)", "exited with code 9")]
)
def test_what_fails_inside_is_told_in_four_parts(
    tmp_path: Path, modelopt: Path, fail: str, says: str
) -> None:
    modelopt.write_text(FAKE.replace("FAIL", fail))
    with pytest.raises(ConversionError, match=says) as caught:
        quantize(network(tmp_path, DCN, WEIGHTS), "int8", [sample(0)])
    assert all(caught.value.problems[0].to_json().values())


def test_values_that_are_all_but_alike_are_calibrated_by_the_largest(tmp_path: Path, modelopt: Path) -> None:
    """A histogram has no room for its bins between such values; numpy's own error is what nvidia-modelopt lets through."""
    histogram = "np.histogram(np.array([1, 1 + 2**-23], np.float32), bins=128)"
    modelopt.write_text(FAKE.replace("FAIL", f'others.get("calibration_method") != "max" and {histogram}'))
    done = quantize(network(tmp_path, DCN, WEIGHTS), "int8", [sample(0)])
    assert done.report.reduced == 2


def test_the_functions_give_what_the_plugin_gives(tmp_path: Path) -> None:
    model = network(tmp_path, DCN, WEIGHTS, opset=19)
    bodied, plugins = with_bodies(model)
    assert list(plugins) == ["dcn"] and len(bodied.proto.functions) == 1
    np.testing.assert_allclose(
        run(bodied, sample(0))["y"], run(expand(model), sample(0))["y"], rtol=1e-5, atol=1e-5
    )
    back = without_bodies(bodied, plugins)
    assert list(back.proto.graph.node) == list(model.proto.graph.node)
    onnx.checker.check_model(back.proto)


def test_a_plugin_whose_body_would_be_too_large_is_told(tmp_path: Path) -> None:
    text = """(float[1,4,8,8] x, float[1,C,16,16] m) => (float[1,4,16,16] y) {
        y = trtsmith.FeatureReassembly <kernel_size = 1023, groups = 1, scale_factor = 2> (x, m) }"""
    with pytest.raises(ConversionError, match=r"kernel_size = 1023.* takes more than") as caught:
        with_bodies(network(tmp_path, text, {}, opset=19))
    assert all(caught.value.problems[0].to_json().values())


def test_inputs_that_are_left_out_and_a_domain_that_was_lost_come_back(tmp_path: Path) -> None:
    model = network(tmp_path, DCN.replace("(a, o, w)", '(a, o, w, "")'), WEIGHTS, opset=19)
    assert [list(n.input) for n in model.proto.graph.node if n.name == "dcn"] == [["a", "o", "w", ""]]
    bodied, plugins = with_bodies(model)
    kept = [o for o in bodied.proto.opset_import if o.domain != "trtsmith"]
    del bodied.proto.opset_import[:]
    bodied.proto.opset_import.extend(kept)
    back = without_bodies(bodied, plugins)
    assert list(back.proto.graph.node) == list(model.proto.graph.node)
    assert [o.version for o in back.proto.opset_import if o.domain == "trtsmith"] == [1]


SPECS = [InputSpec("x", "float32", (None, 3), ("N", "")), InputSpec("m", "float32", (None, 1), ("N", ""))]


def test_samples_are_cut_along_the_first_axis(tmp_path: Path) -> None:
    x, m = normal(6, 3), normal(6, 1)
    np.savez(tmp_path / "a.npz", x=x, m=m)
    np.savez(tmp_path / "b.npz", x=x[:2] + 1, m=m[:2])
    samples = load_samples([tmp_path / "a.npz", tmp_path / "b.npz"], SPECS)
    assert len(samples) == 8 and samples[0]["x"].shape == (1, 3)
    np.testing.assert_array_equal(np.concatenate([s["x"] for s in samples]), np.concatenate([x, x[:2] + 1]))
    fixed = [InputSpec("x", "float32", (2, 3), ("", "")), InputSpec("m", "float32", (2, 1), ("", ""))]
    assert [s["x"].shape for s in load_samples([tmp_path / "a.npz"], fixed)] == [(2, 3)] * 3
    uneven = {"x": x, "m": m[:4]}
    assert split(uneven, SPECS) == [uneven]


def test_samples_that_do_not_fit_are_all_listed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=normal(6, 4))
    with pytest.raises(UsageError) as caught:
        load_samples([tmp_path / "a.npz"], SPECS)
    assert [p.what for p in caught.value.problems] == ["input 'x' is float32[6, 4]", "no array for input 'm'"]
    assert "more samples along the first axis" in caught.value.problems[0].expected


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(normal(4, 3).astype(np.float64), id="another type"),
        pytest.param(normal(5, 3), id="no whole number of samples"),
        pytest.param(normal(0, 3), id="nothing"),
    ],
)
def test_an_array_that_does_not_fit_is_shown_as_it_is(tmp_path: Path, x: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", x=x)
    with pytest.raises(UsageError) as caught:
        load_samples([tmp_path / "a.npz"], [InputSpec("x", "float32", (2, 3), ("", ""))])
    assert [p.what for p in caught.value.problems] == [f"input 'x' is {x.dtype}{list(x.shape)}"]


def test_the_reader_gives_each_set_once_and_begins_again(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.npz" for i in range(2)]
    for i, file in enumerate(files):
        np.savez(file, x=np.array([i + 1]))
    reader = CalibrationReader(files)
    first = [reader.get_next(), reader.get_next(), reader.get_next()]
    assert [None if s is None else int(s["x"][0]) for s in first] == [1, 2, None]
    assert int(reader.get_first()["x"][0]) == 1
    reader.rewind()
    again = reader.get_next()
    assert again is not None and int(again["x"][0]) == 1
