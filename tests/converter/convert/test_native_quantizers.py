"""TensorRT's own operators are accepted if its parser imports them, and onnxruntime runs equivalents."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from trtsmith.converter.convert.foreign_nodes import ForeignPlugins
from trtsmith.converter.convert.plan import Route, plan
from trtsmith.converter.engine.builder import build as building
from trtsmith.converter.engine.builder.build import build, parser_imports
from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import reference, rewrite
from trtsmith.converter.rewrite.target import Target

_MODELS = {
    "float8": """(float[4, 64] x) => (float[4, 64] y) <float s = {0.02}> {
        q = trt.TRT_FP8QuantizeLinear (x, s)  y = trt.TRT_FP8DequantizeLinear (q, s) }""",
    "float8 in TensorRT's domain": """(float[4, 64] x) => (float[4, 64] y) <float s = {0.02}, float8e4m3fn z = {0}> {
        q = trt.QuantizeLinear <saturate = 1> (x, s, z)  y = trt.DequantizeLinear (q, s) }""",
    "int4": """(float[4, 64] x, float[64, 8] w, float[2, 8] s) => (float[4, 8] y) {
        q = trt.TRT_INT4QuantizeLinear <axis = 0, block_size = 32> (w, s)
        d = trt.TRT_INT4DequantizeLinear <axis = 0, block_size = 32> (q, s)  y = MatMul (x, d) }""",
    "mxfp8": """(float[4, 64] x) => (float[4, 64] y) {
        q, s = trt.TRT_MXFP8DynamicQuantize <axis = -1, block_size = 32, output_dtype = 17> (x)
        y = trt.TRT_MXFP8DequantizeLinear <axis = -1, block_size = 32, output_dtype = 1> (q, s) }""",
    "nvfp4": """(float[4, 64] x) => (float[4, 64] y) <float s = {0.02}> {
        q, b = trt.TRT_FP4DynamicQuantize <axis = -1, block_size = 16, scale_type = 17> (x, s)
        d = DequantizeLinear (b, s)  y = DequantizeLinear <axis = -1, block_size = 16> (q, d) }""",
    "floor of a quotient": "(float[4, 64] x, float[4, 64] s) => (float[4, 64] y) { y = trt.TRT_FloorDiv (x, s) }",
    "pooling": "(float[1, 2, 8, 8] x) => (float[1, 2, 7, 7] y) { y = trt.TRT_AveragePool <kernel_shape = [2, 2]> (x) }",
}


def _saved(folder: Path, name: str) -> Path:
    head = '<ir_version: 10, opset_import: ["" : 23, "trt" : 1]> g '
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(head + _MODELS[name]), path)
    return path


@pytest.mark.parametrize("name", _MODELS)
def test_an_operator_that_the_parser_imports_is_planned_and_builds(name: str, tmp_path: Path) -> None:
    rewritten = rewrite(load_model(_saved(tmp_path, name)))
    planned = plan(rewritten)
    assert planned.convertible and {node.route for node in planned.nodes} <= {Route.NATIVE, Route.REWRITTEN}
    onnx.save(rewritten.model.proto, tmp_path / "rewritten.onnx")
    request = BuildRequest(tmp_path / "rewritten.onnx", tmp_path / "engine", targets=("sm120",))
    assert build(request).engine_path.stat().st_size > 0


def test_microscaled_blocks_in_onnxruntime(tmp_path: Path) -> None:
    """Scales are the least power of two that brings a block into float8: for exact powers, their neighbours and zeros."""
    path = tmp_path / "model.onnx"
    text = '<ir_version: 10, opset_import: ["" : 23, "trt" : 1]> g ' + _MODELS["mxfp8"].replace("[4,", "[N,")
    onnx.save(onnx.parser.parse_model(text), path)
    powers = 2.0 ** np.arange(-30, 30)
    largest = np.concatenate([powers, powers * (1 + 2.0**-23), powers * (1 - 2.0**-24), powers * 1.05, [0]])
    x = np.random.default_rng(0).uniform(-1, 1, (largest.size, 64)) * 448 * largest[:, None]
    x[:, [3, 40]] = 448 * largest[:, None]
    x = x.astype(np.float32)
    blocks = x.reshape(-1, 2, 32).astype(np.float64)
    fraction, exponent = np.frexp(np.abs(blocks).max(-1, keepdims=True) / 448)
    scale = np.where(fraction == 0, 1.0, 2.0 ** (exponent - (fraction == 0.5)))
    expected = (blocks / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
    session = onnxruntime.InferenceSession(reference(load_model(path)).proto.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected.reshape(-1, 64))


def _nvfp4(x: np.ndarray, of_tensor: float) -> np.ndarray:
    """What nvidia-modelopt's kernels compute, by ml_dtypes: float4 times float8 for 16 elements times a scale of all."""
    blocks = x.reshape(*x.shape[:-1], -1, 16)
    share = np.abs(blocks).max(-1, keepdims=True) / np.float32(6) / np.float32(of_tensor)
    scale = np.minimum(share, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(of_tensor)
    ratio = np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale != 0)
    return (ratio.astype(ml_dtypes.float4_e2m1fn).astype(np.float32) * scale).reshape(x.shape)


def test_float4_blocks_in_onnxruntime(tmp_path: Path) -> None:
    """Every number of float4 and the middle of each two, zeros, and blocks whose scale is beyond float8 or rounds to 0."""
    steps = np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 0.3], np.float32)
    random = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    x = np.concatenate([np.tile([steps, -16 * steps], 4) * 0.02, random, random * 1e-6, random * 1e6])
    x[3, :20] = 0
    weight = np.random.default_rng(1).uniform(-6, 6, (64, 32)).astype(ml_dtypes.float4_e2m1fn)
    scale = np.random.default_rng(2).uniform(0.1, 1, (64, 2)).astype(np.float32)
    body = (
        _MODELS["nvfp4"]
        .replace("float[4, 64] x", "float[N, 64] x")
        .replace("float[4, 64] y", "float[N, 32] z")
    )
    product = "w = DequantizeLinear <axis = -1, block_size = 16> (k, e)  z = MatMul (y, w) }"
    head = '<ir_version: 11, opset_import: ["" : 23, "trt" : 1]> g '
    model = onnx.parser.parse_model(head + body.replace("}", product).replace("{0.02" + product, "{0.02}"))
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(*one) for one in ((weight, "k"), (scale, "e"))
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    expected = _nvfp4(x, 0.02) @ (weight.astype(np.float32) * np.repeat(scale, 16, axis=1))
    outputs = run(reference(load_model(path)), {"x": x})
    np.testing.assert_allclose(outputs["z"], expected, rtol=1e-5, atol=1e-5)


def test_a_newer_parser_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where its list is of another version: the answer costs an import of TensorRT."""
    foreign = ForeignPlugins(target=Target("tensorrt_rtx"))
    parser_imports.cache_clear()
    assert not foreign.imports("TRT_FloorDiv")
    monkeypatch.setattr(building, "asked_parser", lambda: "tensorrt_rtx 1.0")
    parser_imports.cache_clear()
    assert foreign.imports("TRT_FloorDiv") and not foreign.imports("TRT_NoSuchThing")
    parser_imports.cache_clear()
