"""Rules on models whose sizes are known at run time only, which examples cannot have: the same numbers in onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import reference

from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX

IMAGE = "(float[N, 3, H, W] x) => (float[a, b, c, d] y)"
KERNEL = "kernel_shape = [3, 2], dilations = [2, 3]"
CEIL = f"{KERNEL}, strides = [2, 3], pads = [1, 1, 0, 1], ceil_mode = 1"
BEYOND = "kernel_shape = [1, 3], strides = [5, 3], pads = [0, 1, 0, 1], ceil_mode = 1"
CROP = 'coordinate_transformation_mode = "tf_crop_and_resize"'
SYMMETRIC = 'coordinate_transformation_mode = "half_pixel_symmetric"'

CASES = {
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
    "roi align": (
        "(float[N, C, H, W] x, float[R, 4] boxes, int64[R] of) => (float[a, b, c, d] y)",
        "y = RoiAlign <output_height = 3, output_width = 2, sampling_ratio = 2> (x, boxes, of)",
    ),
    "det": ("(float[N, C, 3, 3] x) => (float[a, b] y)", "y = Det (x)"),
    "lrn": ("(float[N, 7, L] x) => (float[a, b, c] y)", "y = LRN <size = 4, alpha = 0.2> (x)"),
}
SIZES = {"N": 2, "C": 4, "H": 9, "W": 12, "L": 31, "R": 6}
NO_REFERENCE = ("dft", "resize")


def rewritten(name: str, tmp_path: Path) -> tuple[onnx.ModelProto, Rewritten]:
    signature, body = CASES[name]
    proto = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 19]> g {signature}
        <int64[2] sizes = {{7, 16}}, int64[2] small = {{3, 5}}, float[2] scales = {{0.6, 1.7}}, int64 five = {{5}},
         float[4] roi = {{0.1, -0.2, 0.8, 1.1}}> {{ {body} }}"""
    )
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    result = rewrite(load_model(path), passes=())
    assert result.rewrites and not result.declined
    return proto, result


def feeds(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    values = {}
    for value in proto.graph.input:
        shape = [d.dim_value or SIZES[d.dim_param] for d in value.type.tensor_type.shape.dim]
        values[value.name] = rng.normal(0, 3, shape).astype(np.float32)
    if "of" in values:
        values["of"] = np.arange(SIZES["R"]) % SIZES["N"]
    return values


@pytest.mark.parametrize("name", sorted(set(CASES) - {"lrn"}))
def test_sizes_of_run_time_give_the_same_numbers(name: str, tmp_path: Path) -> None:
    proto, result = rewritten(name, tmp_path)
    inputs = feeds(proto)
    if name.startswith(NO_REFERENCE):
        names = [value.name for value in proto.graph.output]
        expected = dict(zip(names, reference.ReferenceEvaluator(proto).run(None, dict(inputs)), strict=True))
    else:
        expected = run(load_model(tmp_path / "model.onnx"), inputs)
    for output, array in run(result.model, inputs).items():
        assert array.shape == expected[output].shape
        np.testing.assert_allclose(array, expected[output], rtol=1e-3, atol=3e-4)


def test_lrn_of_three_dimensions(tmp_path: Path) -> None:
    """onnxruntime and onnx's reference take four dimensions only: by the formula of the specification."""
    proto, result = rewritten("lrn", tmp_path)
    x = feeds(proto)["x"].astype(np.float64)
    squares = np.stack([(x[:, max(0, c - 1) : c + 3] ** 2).sum(1) for c in range(7)], 1)
    (got,) = run(result.model, {"x": x.astype(np.float32)}).values()
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
    models = {}
    for name, body in {
        "same": f'y = {plain}, auto_pad = "{mode}"> (x)',
        "plain": f"y = {plain}> (x)",
    }.items():
        path = tmp_path / f"{name}.onnx"
        onnx.save(
            onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> g {IMAGE} {{ {body} }}'), path
        )
        models[name] = load_model(path)
    expected = run(models["plain"], {"x": wide})["y"]
    if operator == "AveragePool":  # padding does not count
        ones = np.pad(np.ones_like(x), [(0, 0), (0, 0), *pads])
        expected = expected / run(models["plain"], {"x": ones})["y"]
    got = run(rewrite(models["same"], passes=()).model, {"x": x})["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_scores_of_another_rank_are_left_to_those_who_say_so(tmp_path: Path) -> None:
    body = "(float[1, 6, 4] boxes, float scores) => (int64[5, 3] y) { y = NonMaxSuppression (boxes, scores) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 11]> g {body}')
    onnx.save(model, tmp_path / "m.onnx")
    assert rewrite(load_model(tmp_path / "m.onnx")).rewrites == ()


def test_attributes_that_an_opset_has_not_are_not_written(tmp_path: Path) -> None:
    body = "(float[6] x) => (int64[1] y) { y = ArgMin <select_last_index = 1> (x) }"
    onnx.save(
        onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["" : 11]> g {body}'), tmp_path / "m.onnx"
    )
    (made,) = (
        n
        for n in rewrite(load_model(tmp_path / "m.onnx"), RTX).model.proto.graph.node
        if n.op_type == "ArgMin"
    )
    assert "select_last_index" not in {attribute.name for attribute in made.attribute}
