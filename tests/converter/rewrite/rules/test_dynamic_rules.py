"""Rules on graphs with sizes of run time: the same numbers at several sizes, and an engine."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import reference

from tests.converter.rewrite.running import assert_close, engine_size, loaded
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.target import RTX

Sizes = dict[str, int]

BUILT: dict[str, tuple[str, str, list[Sizes]]] = {
    "bitwise": (
        "(int64[N, 3] x, int64[M, 1, 1] z) => (int64[M, N, 3] y)",
        "a = BitwiseAnd (x, z)  o = BitwiseOr (a, x)  n = BitwiseNot (o)  y = BitwiseXor (n, z)",
        [{"N": 4, "M": 2}, {"N": 1, "M": 5}],  # not empty: onnxruntime's sums then have another shape
    ),
    "scatter elements": (
        "(float[N, C] x, int64[M, C] i, float[M, C] u) => (float[N, C] y)",
        'y = ScatterElements <reduction = "add"> (x, i, u)',
        [{"N": 4, "C": 3, "M": 2}, {"N": 4, "C": 2, "M": 3}],
    ),
    "scatter nd": (
        "(float[N, C] x, int64[M, 1] i, float[M, C] u) => (float[N, C] y)",
        'y = ScatterND <reduction = "mul"> (x, i, u)',
        [{"N": 4, "C": 3, "M": 2}, {"N": 3, "C": 2, "M": 9}],
    ),
    "scatter rows": (
        "(float[N, C] x, int64[M] i, float[M, C] u) => (float[N, C] y)",
        """column = Unsqueeze (i, second)  all = Shape (u)  wide = Expand (column, all)
        y = ScatterElements <reduction = "add"> (x, wide, u)""",
        [{"N": 4, "C": 3, "M": 2}, {"N": 3, "C": 2, "M": 9}],
    ),
    "determinant": ("(float[N, 4, 4] x) => (float[N] y)", "y = Det (x)", [{"N": 3}, {"N": 1}]),
    "eye": (
        "(float[N, M] x) => (float[N, M] y)",
        "eye = EyeLike <k = -1> (x)  y = Mul (eye, x)",
        [{"N": 3, "M": 5}, {"N": 4, "M": 2}],
    ),
    "softmax": (
        "(float[N] x) => (float[N] y, int64 best)",
        "y = Softmax (x)  best = ArgMax <keepdims = 0> (x)",
        [{"N": 7}, {"N": 1}],
    ),
    "cumulative product": (
        "(float[N, C, 2] x) => (float[N, C, 2] a, float[N, C, 2] b)",
        "a = CumProd <exclusive = 1> (x, one)  b = CumProd <reverse = 1> (x, zero)",
        [{"N": 3, "C": 5}, {"N": 1, "C": 1}],
    ),
    "compress": (
        "(float[N, C] x) => (float[N, 2] y)",
        "y = Compress <axis = 1> (x, some)",
        [{"N": 2, "C": 5}, {"N": 1, "C": 3}],
    ),
}

IMAGE = "(float[N, 3, H, W] x) => (float[a, b, c, d] y)"
KERNEL = "kernel_shape = [3, 2], dilations = [2, 3]"
CEIL = f"{KERNEL}, strides = [2, 3], pads = [1, 1, 0, 1], ceil_mode = 1"
BEYOND = "kernel_shape = [1, 3], strides = [5, 3], pads = [0, 1, 0, 1], ceil_mode = 1"
CROP = 'coordinate_transformation_mode = "tf_crop_and_resize"'
SYMMETRIC = 'coordinate_transformation_mode = "half_pixel_symmetric"'

SAME_NUMBERS: dict[str, tuple[str, str]] = {
    "max, ceil": (IMAGE, f"y = MaxPool <{CEIL}> (x)"),
    "average, ceil": (IMAGE, f"y = AveragePool <{CEIL}> (x)"),
    "average, ceil, with padding": (IMAGE, f"y = AveragePool <{CEIL}, count_include_pad = 1> (x)"),
    "max, ceil, a window beyond": (IMAGE, f"y = MaxPool <{BEYOND}> (x)"),
    "average, ceil, a window beyond": (IMAGE, f"y = AveragePool <{BEYOND}, count_include_pad = 1> (x)"),
    "triangle": ("(float[N, C, H, W] x) => (float[a, b, c, d] y)", "y = Trilu (x, five)"),
    "lp": (IMAGE, f"y = LpPool <{CEIL}, p = 3> (x)"),
    "max and indices": (
        "(float[N, C, H, W] x) => (float[a, b, c, d] y, int64[e, f, g, h] i)",
        "y, i = MaxPool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1, storage_order = 1> (x)",
    ),
    "unpool": (
        IMAGE,
        "p, i = MaxPool <kernel_shape = [3, 3], strides = [3, 3]> (x)"
        "  y = MaxUnpool <kernel_shape = [3, 3], strides = [3, 3]> (p, i)",
    ),
    "resize, crop": (
        IMAGE,
        f'y = Resize <mode = "linear", axes = [2, 3], {CROP}, extrapolation_value = 3.0> (x, roi, , sizes)',
    ),
    "resize, symmetric": (IMAGE, f'y = Resize <mode = "cubic", axes = [2, 3], {SYMMETRIC}> (x, , scales)'),
    "resize, antialias": (IMAGE, 'y = Resize <mode = "linear", axes = [2, 3], antialias = 1> (x, , , small)'),
    "resize, aspect ratio": (
        IMAGE,
        'y = Resize <mode = "linear", axes = [2, 3], keep_aspect_ratio_policy = "not_smaller"> (x, , , small)',
    ),
    "resize, sizes of two axes": (IMAGE, 'y = Resize <mode = "linear", axes = [3, 2]> (x, , , sizes)'),
    "dft": ("(float[N, 3, H, 1] x) => (float[a, b, c, d] y)", "y = DFT <axis = 2, onesided = 1> (x)"),
    "dft, cut": ("(float[N, 3, H, 1] x) => (float[a, b, c, d] y)", "y = DFT <axis = 2> (x, five)"),
    "stft": (
        "(float[N, L, 1] x, float[8] v) => (float[a, b, c, d] y)",
        "w = Abs (v)  y = STFT (x, five, w)",
    ),
    "det": ("(float[N, C, 3, 3] x) => (float[a, b] y)", "y = Det (x)"),
    "lrn": ("(float[N, 7, L] x) => (float[a, b, c] y)", "y = LRN <size = 4, alpha = 0.2> (x)"),
}
SIZES = {"N": 2, "C": 4, "H": 9, "W": 12, "L": 31}
CASES = BUILT | {name: (*case, [SIZES]) for name, case in SAME_NUMBERS.items()}
BY_REFERENCE = ("dft", "resize", "cumulative")
"""onnxruntime does not know them, or not all of them."""


def model_of(name: str, folder: Path) -> Model:
    signature, body, _ = CASES[name]
    return loaded(
        f"""<ir_version: 10, opset_import: ["" : {26 if "CumProd" in body else 19}]> g {signature}
        <int64[2] sizes = {{7, 16}}, int64[2] small = {{3, 5}}, float[2] scales = {{0.6, 1.7}}, int64 five = {{5}},
         float[4] roi = {{0.1, -0.2, 0.8, 1.1}}, bool[3] some = {{1, 0, 1}}, int64 zero = {{0}}, int64 one = {{1}},
         int64[1] second = {{1}}> {{ {body} }}""",
        folder,
    )


def rewritten(model: Model) -> Rewritten:
    result = rewrite(model, passes=())
    assert result.rewrites and not result.declined and plan(result).convertible
    return result


def shapes_of(model: Model, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    return {
        value.name: tuple(d.dim_value or sizes[d.dim_param] for d in value.type.tensor_type.shape.dim)
        for value in model.proto.graph.input
    }


def feeds_of(model: Model, sizes: Sizes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    feeds = {}
    for value in model.proto.graph.input:
        shape, kind = shapes_of(model, sizes)[value.name], value.type.tensor_type.elem_type
        if value.name == "i":
            feeds[value.name] = rng.integers(-sizes["N"], sizes["N"], shape)
        elif value.name == "of":
            feeds[value.name] = np.arange(shape[0]) % sizes["N"]
        elif kind == onnx.TensorProto.INT64:
            feeds[value.name] = rng.integers(-(1 << 63), (1 << 63) - 1, shape)
        else:
            feeds[value.name] = rng.normal(0, 1 if value.name == "u" else 3, shape).astype(np.float32)
    return feeds


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"lrn"}))
def test_the_numbers_are_the_same_for_every_size(name: str, tmp_path: Path) -> None:
    model = model_of(name, tmp_path)
    result = rewritten(model)
    for sizes in CASES[name][2]:
        feeds = feeds_of(model, sizes)
        if name.startswith(BY_REFERENCE):
            values = reference.ReferenceEvaluator(model.proto).run(None, dict(feeds))
            expected = dict(zip([value.name for value in model.proto.graph.output], values, strict=True))
        else:
            expected = run(model, feeds)
        exact = all(array.dtype.kind == "i" for array in expected.values())
        bounds = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-3, "atol": 3e-4}
        assert_close(run(expand(result.model), feeds), expected, **bounds)


@pytest.mark.parametrize("name", BUILT)
def test_tensorrt_builds_them(name: str, tmp_path: Path) -> None:
    model = model_of(name, tmp_path)
    sizes = CASES[name][2][0]
    usual, most = shapes_of(model, sizes), shapes_of(model, {dim: 2 * size for dim, size in sizes.items()})
    profile = {name: Profile(shape, shape, most[name]) for name, shape in usual.items()}
    assert engine_size(rewritten(model), tmp_path, profile) > 0


def test_lrn_of_three_dimensions(tmp_path: Path) -> None:
    """onnxruntime and onnx's reference take four dimensions only: by the formula of the specification."""
    model = model_of("lrn", tmp_path)
    x = feeds_of(model, SIZES)["x"].astype(np.float64)
    squares = np.stack([(x[:, max(0, c - 1) : c + 3] ** 2).sum(1) for c in range(7)], 1)
    (got,) = run(rewritten(model).model, {"x": x.astype(np.float32)}).values()
    np.testing.assert_allclose(got, x / (1 + 0.2 / 4 * squares) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_of_dilated_windows(operator: str, mode: str, stride: int, tmp_path: Path) -> None:
    """onnxruntime and onnx's reference leave dilations out of auto_pad: by explicit pads of the same sizes."""
    x = np.random.default_rng(2).normal(size=(2, 3, 9, 12)).astype(np.float32)
    pads = []
    for size, kernel, dilation in ((9, 3, 2), (12, 2, 3)):
        total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        pads.append((total // 2, total - total // 2)[:: 1 if mode == "SAME_UPPER" else -1])
    fill = -np.inf if operator == "MaxPool" else 0.0
    wide = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    plain = f"{operator} <{KERNEL}, strides = [{stride}, {stride}]"
    heads = f'<ir_version: 9, opset_import: ["" : 19]> g {IMAGE}'
    same = rewrite(loaded(f'{heads} {{ y = {plain}, auto_pad = "{mode}"> (x) }}', tmp_path), passes=())
    explicit = loaded(f"{heads} {{ y = {plain}> (x) }}", tmp_path)
    expected = run(explicit, {"x": wide})["y"]
    if operator == "AveragePool":  # padding does not count
        ones = np.pad(np.ones_like(x), [(0, 0), (0, 0), *pads])
        expected = expected / run(explicit, {"x": ones})["y"]
    got = run(same.model, {"x": x})["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_scores_of_another_rank_are_left_to_those_who_say_so(tmp_path: Path) -> None:
    body = "(float[1, 6, 4] boxes, float scores) => (int64[5, 3] y) { y = NonMaxSuppression (boxes, scores) }"
    model = loaded(f'<ir_version: 8, opset_import: ["" : 11]> g {body}', tmp_path)
    assert rewrite(model).rewrites == ()


def test_attributes_that_an_opset_has_not_are_not_written(tmp_path: Path) -> None:
    body = "(float[6] x) => (int64[1] y) { y = ArgMin <select_last_index = 1> (x) }"
    graph = rewrite(
        loaded(f'<ir_version: 7, opset_import: ["" : 11]> g {body}', tmp_path), RTX
    ).model.proto.graph
    (made,) = (node for node in graph.node if node.op_type == "ArgMin")
    assert "select_last_index" not in {attribute.name for attribute in made.attribute}
