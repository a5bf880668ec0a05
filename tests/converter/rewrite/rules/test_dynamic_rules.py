"""Rules on graphs whose sizes are known at run time only: the same numbers for several sizes, and an engine."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import reference

from tests.builds import build_in_pool
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.build.build_request import BuildRequest, Profile
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import expand, rewrite

UNKNOWN_TO_ONNXRUNTIME = {"cumulative_product"}

Sizes = dict[str, tuple[int, ...]]

MODELS: dict[str, tuple[str, list[Sizes]]] = {
    "bitwise": (
        """<ir_version: 9, opset_import: ["" : 20]>
        g (int64[N, 3] x, int64[M, 1, 1] z) => (int64[M, N, 3] y) {
            a = BitwiseAnd (x, z)
            o = BitwiseOr (a, x)
            n = BitwiseNot (o)
            y = BitwiseXor (n, z)
        }""",
        [
            {"x": (4, 3), "z": (2, 1, 1)},
            {"x": (1, 3), "z": (5, 1, 1)},
        ],  # not empty: onnxruntime's sums then have another shape
    ),
    "scatter_elements": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, C] x, int64[M, C] i, float[M, C] u) => (float[N, C] y) {
            y = ScatterElements <reduction = "add"> (x, i, u)
        }""",
        [{"x": (4, 3), "i": (2, 3), "u": (2, 3)}, {"x": (4, 2), "i": (3, 2), "u": (3, 2)}],
    ),
    "scatter_nd": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, C] x, int64[M, 1] i, float[M, C] u) => (float[N, C] y) {
            y = ScatterND <reduction = "mul"> (x, i, u)
        }""",
        [{"x": (4, 3), "i": (2, 1), "u": (2, 3)}, {"x": (3, 2), "i": (9, 1), "u": (9, 2)}],
    ),
    "scatter_rows": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, C] x, int64[M] i, float[M, C] u) => (float[N, C] y) <int64[1] axis = {1}> {
            column = Unsqueeze (i, axis)
            sizes = Shape (u)
            wide = Expand (column, sizes)
            y = ScatterElements <reduction = "add"> (x, wide, u)
        }""",
        [{"x": (4, 3), "i": (2,), "u": (2, 3)}, {"x": (3, 2), "i": (9,), "u": (9, 2)}],
    ),
    "determinant": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, 4, 4] x) => (float[N] y) { y = Det (x) }""",
        [{"x": (3, 4, 4)}, {"x": (1, 4, 4)}],
    ),
    "eye": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, M] x) => (float[N, M] y) {
            eye = EyeLike <k = -1> (x)
            y = Mul (eye, x)
        }""",
        [{"x": (3, 5)}, {"x": (4, 2)}],
    ),
    "softmax": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N] x) => (float[N] y, int64 best) {
            y = Softmax (x)
            best = ArgMax <keepdims = 0> (x)
        }""",
        [{"x": (7,)}, {"x": (1,)}],
    ),
    "cumulative_product": (
        """<ir_version: 10, opset_import: ["" : 26]>
        g (float[N, C, 2] x) => (float[N, C, 2] a, float[N, C, 2] b) <int64 first = {0}, int64 second = {1}> {
            a = CumProd <exclusive = 1> (x, second)
            b = CumProd <reverse = 1> (x, first)
        }""",
        [{"x": (3, 5, 2)}, {"x": (1, 1, 2)}],
    ),
    "compress": (
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, C] x) => (float[N, 2] y) <bool[3] c = {1, 0, 1}> { y = Compress <axis = 1> (x, c) }""",
        [{"x": (2, 5)}, {"x": (1, 3)}],
    ),
}


def generated(model: onnx.ModelProto, sizes: Sizes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    feeds = {}
    for value in model.graph.input:
        shape, kind = sizes[value.name], value.type.tensor_type.elem_type
        if value.name == "i":
            feeds[value.name] = rng.integers(-sizes["x"][0], sizes["x"][0], shape)
        elif kind == onnx.TensorProto.INT64:
            feeds[value.name] = rng.integers(-(1 << 63), (1 << 63) - 1, shape)
        else:
            feeds[value.name] = rng.normal(size=shape).astype(np.float32)
    return feeds


@pytest.mark.parametrize("name", MODELS)
def test_the_numbers_are_the_same_for_every_size(name: str, tmp_path: Path) -> None:
    text, all_sizes = MODELS[name]
    proto = onnx.parser.parse_model(text)
    onnx.save(proto, tmp_path / "model.onnx")
    model = load_model(tmp_path / "model.onnx")
    result = rewrite(model, passes=())
    assert result.rewrites and not result.declined and plan(result).convertible
    for sizes in all_sizes:
        feeds = generated(proto, sizes)
        got = run(expand(result.model), feeds)
        if name in UNKNOWN_TO_ONNXRUNTIME:
            values = reference.ReferenceEvaluator(proto).run(None, feeds)
            expected = dict(zip([value.name for value in proto.graph.output], values, strict=True))
        else:
            expected = run(model, feeds)
        for output, array in expected.items():
            assert got[output].shape == array.shape
            if array.dtype.kind == "i":
                np.testing.assert_array_equal(got[output], array)
            else:
                np.testing.assert_allclose(got[output], array, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
@pytest.mark.parametrize("name", MODELS)
def test_tensorrt_builds_them(name: str, tmp_path: Path) -> None:
    text, (sizes, *_) = MODELS[name]
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    result = rewrite(load_model(tmp_path / "model.onnx"), passes=())
    path = tmp_path / "rewritten.onnx"
    save_model(result.model, path)
    profile = {
        name: Profile(shape, shape, tuple(2 * size for size in shape)) for name, shape in sizes.items()
    }
    fixed = {value.name: value.type.tensor_type.shape.dim for value in onnx.load(path).graph.input}
    for name, dims in fixed.items():
        largest = tuple(d.dim_value or m for d, m in zip(dims, profile[name].max, strict=True))
        profile[name] = Profile(sizes[name], sizes[name], largest)
    plugins = plan(result).plugins
    libraries = (plugin_library(),) if plugins else ()
    request = BuildRequest(
        path, tmp_path / "engine", libraries, plugins, (profile,), targets=("sm86",), flavour="tensorrt_rtx"
    )
    assert build_in_pool(request).size > 0
