"""QuantizeLinear and DequantizeLinear of every integer type, granularity and opset, against their formulas in numpy."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.converter.rewrite.engine.ruled import ruled
from tests.converter.rewrite.running import loaded
from tests.importers.running import standard_model
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rules import quantized
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.importers.dtypes import NUMBERS

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # infinities are meant

TYPES = {"int8": 10, "uint8": 10, "int16": 21, "uint16": 21, "int4": 21, "uint4": 21, "int2": 25, "uint2": 25}
"""By type, the first opset that quantizes to it."""

OPSETS = (10, 13, 21, 25)

X = np.concatenate(
    [
        np.linspace(-4, 4, 33),  # halves of the scale 0.25: ties
        [0.124999, 0.3750001, -0.0, 1e9, -1e9, np.inf, -np.inf, 3.4e38, 1e-40],
        np.random.default_rng(0).normal(0, 20, 18),
    ]
).astype(np.float32).reshape(5, 12)  # fmt: skip


def shapes(grain: str) -> tuple[tuple[int, ...], dict[str, int]]:
    """Of a scale for X, and the attributes that say so."""
    return {
        "tensor": ((), {}),
        "one": ((1,), {}),
        "axis": ((12,), {}),
        "first axis": ((5,), {"axis": -2}),
        "block": ((5, 4), {"axis": 1, "block_size": 3}),
        "short block": ((2, 12), {"axis": 0, "block_size": 4}),
    }[grain]


def spread(array: np.ndarray, grain: str) -> np.ndarray:
    if grain == "first axis":
        return array.reshape(5, 1)
    if "block" in grain:
        _, attributes = shapes(grain)
        return np.repeat(array, attributes["block_size"], attributes["axis"])[:5, :12]
    return array


CASES = [
    pytest.param(dtype, opset, grain, id=f"{dtype}-{opset}-{grain}")
    for dtype, first in TYPES.items()
    for opset in OPSETS
    for grain in ("tensor", "one", "axis", "first axis", "block", "short block")
    if opset >= first and opset >= {"tensor": 10, "one": 10}.get(grain, 21 if "block" in grain else 13)
    if opset == OPSETS[-1]
    or dtype == "uint8"  # the older opsets differ in how they say the axis, for all types alike
]


def scale_and_zero(dtype: str, grain: str, zero: bool) -> tuple[np.ndarray, np.ndarray]:
    """A scale with ties and a zero point, odd and at the ends of the range."""
    rng = np.random.default_rng(len(dtype) + len(grain))
    shape, _ = shapes(grain)
    scale = rng.choice(np.array([0.25, 0.5, 0.1, 3.0], np.float32), shape)
    low, high = RANGES[dtype]
    zeros = rng.choice([low, high, (low + high) // 2 | 1, 1], shape) if zero else np.zeros(shape)
    kind = helper.tensor_dtype_to_np_dtype(NUMBERS[dtype])
    return np.asarray(scale, np.float32), np.asarray(zeros).astype(np.int32).astype(kind)


def made(
    op_type: str,
    opset: int,
    arrays: dict[str, np.ndarray],
    to: str,
    attributes: dict[str, int],
    fed: tuple[str, ...],
) -> onnx.ModelProto:
    """Of any number of rows."""
    proto = standard_model(op_type, arrays, {"y": NUMBERS[to]}, opset, arrays.keys() - set(fed), **attributes)
    for value in proto.graph.input:
        if value.name == "x":
            value.type.tensor_type.shape.dim[0].dim_param = "rows"
    return proto


def result(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> tuple[np.ndarray, bool]:
    """By the rewritten graph; and whether a rule fired."""
    done = ruled(infer_shapes(loaded(proto, folder)), quantized.RULES)
    assert not [record for record in done.declined if record.fatal]
    if done.model.proto.opset_import[0].version < 19:  # older than the reference implementation
        return run(done.model, feeds)["y"], bool(done.rewrites)
    return ReferenceEvaluator(done.model.proto).run(None, feeds)[0], bool(done.rewrites)


@pytest.mark.parametrize("fed", [("x",), ("x", "scale", "zero")], ids=["constants", "fed"])
@pytest.mark.parametrize(("dtype", "opset", "grain"), CASES)
def test_quantize(dtype: str, opset: int, grain: str, fed: tuple[str, ...], tmp_path: Path) -> None:
    scale, zero = scale_and_zero(dtype, grain, zero=True)
    low, high = RANGES[dtype]
    steps = np.rint(X / spread(scale, grain))
    want = np.clip(steps.astype(np.float64) + spread(zero.astype(np.int32), grain), low, high)
    arrays = {"x": X, "scale": scale, "zero": zero}
    _, attributes = shapes(grain)
    proto = made("QuantizeLinear", opset, arrays, dtype, attributes, fed)
    got, fired = result(proto, {n: arrays[n] for n in fed}, tmp_path)
    assert fired
    np.testing.assert_array_equal(got.astype(np.int32), want.astype(np.int32))


@pytest.mark.parametrize("fed", [("x",), ("x", "scale", "zero"), ()], ids=["constants", "fed", "weights"])
@pytest.mark.parametrize(("dtype", "opset", "grain"), CASES)
def test_dequantize(dtype: str, opset: int, grain: str, fed: tuple[str, ...], tmp_path: Path) -> None:
    scale, zero = scale_and_zero(dtype, grain, zero=True)
    low, high = RANGES[dtype]
    whole = np.random.default_rng(3).integers(low, high + 1, X.shape)
    want = (whole - spread(zero.astype(np.int32), grain)).astype(np.float32) * spread(scale, grain)
    arrays = {"x": whole.astype(np.int32).astype(zero.dtype), "scale": scale, "zero": zero}
    _, attributes = shapes(grain)
    proto = made("DequantizeLinear", opset, arrays, "float32", attributes, fed)
    got, fired = result(proto, {n: arrays[n] for n in fed}, tmp_path)
    assert fired
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_division_is_in_the_type_of_the_scale(dtype: str, tmp_path: Path) -> None:
    """From opset 23 on, `precision` says so else."""
    kind = helper.tensor_dtype_to_np_dtype(NUMBERS[dtype])
    x, scale, zero = X[:4].astype(kind), np.array(0.3, kind), np.array(100, np.uint8)
    for attributes, precision in (({}, kind), ({"precision": TensorProto.FLOAT}, np.float32)):
        with np.errstate(over="ignore"):
            steps = np.rint((x.astype(precision) / scale.astype(precision)).astype(np.float32))
        want = np.clip(steps.astype(np.float64) + 100, 0, 255)
        arrays = {"x": x, "scale": scale, "zero": zero}
        proto = made("QuantizeLinear", 23, arrays, "uint8", attributes, ("x",))
        got, _ = result(proto, {"x": x}, tmp_path)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("grain", ["tensor", "one", "axis", "first axis", "block"])
def test_int8_around_zero_is_left_alone(op_type: str, grain: str, tmp_path: Path) -> None:
    scale, zero = scale_and_zero("int8", grain, zero=False)
    x = X if op_type == "QuantizeLinear" else X.clip(-9, 9).astype(np.int8)
    _, attributes = shapes(grain)
    to = "int8" if op_type == "QuantizeLinear" else "float32"
    proto = made(op_type, 21, {"x": x, "scale": scale, "zero": zero}, to, attributes, ("x",))
    _, fired = result(proto, {"x": x}, tmp_path)
    assert not fired


@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_scales_that_tensorrt_refuses(scale: float, tmp_path: Path) -> None:
    arrays = {"x": np.arange(-6, 6, dtype=np.int8), "scale": np.float32(scale), "zero": np.int8(0)}
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    got, fired = result(
        made("DequantizeLinear", 13, arrays, "float32", {}, ("x",)), {"x": arrays["x"]}, tmp_path
    )
    assert fired
    np.testing.assert_array_equal(got, np.arange(-6, 6) * np.float32(scale))
