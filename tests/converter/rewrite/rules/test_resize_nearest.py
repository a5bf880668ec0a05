"""The nearest input of a Resize to sizes of run time, against exact fractions: ties fall as in ONNX."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.running import engine_size, fixed, loaded, op_types
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session
from trtsmith.converter.rewrite.rewrite import rewrite

COORDINATES = (
    *("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"),
    "tf_half_pixel_for_nn",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
INPUTS = ((2, 2), (1, 3), (5, 4), (7, 9))
SIZES = ((7, 8), (1, 1), (3, 5), (14, 2), (4, 18))
HALF = Fraction(1, 2)


def coordinate(kind: str, size: int, out: int, scale: Fraction, y: int) -> Fraction:
    """https://onnx.ai/onnx/operators/onnx__Resize.html"""
    length = scale * size
    if kind == "align_corners":
        return Fraction(0) if length == 1 else y * (size - 1) / (length - 1)
    if kind == "asymmetric":
        return y / scale
    if kind == "pytorch_half_pixel" and length == 1:
        return -HALF
    x = (y + HALF) / scale - HALF
    if kind == "tf_half_pixel_for_nn":
        return x + HALF
    return x + Fraction(size, 2) * (1 - out / length) if kind == "half_pixel_symmetric" else x


def indices(kind: str, rounding: str, size: int, out: int, scale: Fraction) -> list[int]:
    rounded = {
        "round_prefer_floor": lambda x: math.ceil(x - HALF),
        "round_prefer_ceil": lambda x: math.floor(x + HALF),
        "floor": math.floor,
        "ceil": math.ceil,
    }[rounding]
    places = (rounded(coordinate(kind, size, out, scale, y)) for y in range(out))
    return [min(max(place, 0), size - 1) for place in places]


def resize(kind: str, rounding: str, policy: str, folder: Path) -> Model:
    text = f"""<ir_version: 8, opset_import: ["" : 19]> g (int64[H, W] x, int64[2] sizes) => (int64[a, b] y) {{
        y = Resize <mode = "nearest", nearest_mode = "{rounding}", coordinate_transformation_mode = "{kind}",
                    axes = [0, 1], keep_aspect_ratio_policy = "{policy}"> (x, , , sizes)
    }}"""
    result = rewrite(loaded(text, folder))
    assert [record.pass_name for record in result.rewrites] == ["resize"]
    assert not any(record.numerics for record in result.rewrites)
    return result.model


@pytest.mark.parametrize(
    ("kind", "rounding", "policy"),
    [
        *itertools.product(COORDINATES, ROUNDINGS, ("stretch",)),
        *itertools.product(COORDINATES, ("round_prefer_floor",), ("not_larger", "not_smaller")),
    ],
)
def test_every_tie_falls_where_onnx_has_it(kind: str, rounding: str, policy: str, tmp_path: Path) -> None:
    session = open_session(resize(kind, rounding, policy, tmp_path))
    compared = 0
    for before, wanted in itertools.product(INPUTS, SIZES):
        scales = [Fraction(n, size) for n, size in zip(wanted, before, strict=True)]
        after = list(wanted)
        if policy != "stretch":
            scales = [(min if policy == "not_larger" else max)(scales)] * 2
            after = [math.floor(scales[0] * size + HALF) for size in before]
        if 0 in after:
            continue
        x = np.arange(math.prod(before)).reshape(before)
        rows, columns = (indices(kind, rounding, *axis) for axis in zip(before, after, scales, strict=True))
        (got,) = session.run(None, {"x": x, "sizes": np.array(wanted)})
        np.testing.assert_array_equal(got, x[np.ix_(rows, columns)])
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_no_float_is_divided_or_rounded(rounding: str, tmp_path: Path) -> None:
    model = resize("half_pixel", rounding, "not_larger", tmp_path)
    types = {v.name: v.type.tensor_type.elem_type for v in model.proto.graph.value_info}
    divided = [node for node in model.proto.graph.node if node.op_type == "Div"]
    assert divided and {types[node.output[0]] for node in divided} == {onnx.TensorProto.INT64}
    assert not {"Floor", "Ceil", "Round"} & set(op_types(model))


@pytest.mark.parametrize("by", ["scales", "sizes"])
@pytest.mark.parametrize("after", [(14, 18), (7, 30), (14, 9), (3, 4)])
def test_the_nearest_as_tf2onnx_writes_it(after: tuple[int, int], by: str, tmp_path: Path) -> None:
    """TensorRT runs one Resize where inputs are repeated; else the axes are gathered."""
    before, repeats = (7, 6), after[0] % 7 == after[1] % 6 == 0
    scales = [n / size for n, size in zip(after, before, strict=True)]
    x = np.random.default_rng(0).standard_normal((1, 2, *before)).astype(np.float32)
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 2, {"H, W" if by == "scales" and repeats else "7, 6"}] x) => (float[n, c, h, w] y)
        <float[4] scales = {{1, 1, {scales[0]}, {scales[1]}}}, int64[4] sizes = {{1, 2, {after[0]}, {after[1]}}}> {{
        y = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "tf_half_pixel_for_nn">
            {"(x, , scales)" if by == "scales" else "(x, , , sizes)"}
    }}"""
    result = rewrite(loaded(text, tmp_path))
    assert ("Gather" in op_types(result.model)) is not repeats
    (got,) = open_session(result.model).run(None, {"x": x})
    rows, columns = (
        indices("tf_half_pixel_for_nn", "floor", size, out, Fraction(out, size))
        for size, out in zip(before, after, strict=True)
    )
    np.testing.assert_array_equal(got, x[:, :, rows][..., columns])
    assert engine_size(result, tmp_path, fixed({"x": x.shape} if "H, W" in text else {})) > 0
