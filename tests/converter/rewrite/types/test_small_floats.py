"""Casts to floats of a byte or less: every value of the format, every midpoint and its neighbours, special values."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.converter.rewrite.types.legalising import model_of, run_legalised

FLOAT8 = {
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
}
NUMBERS = {"float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "float4e2m1": 23}


def awkward(kind: str) -> np.ndarray:
    """All values of the format, what lies halfway, and the next float32 on both sides of each."""
    codes = np.arange(16 if kind == "float4e2m1" else 256, dtype=np.uint8)
    values = codes.view(np.uint8).astype(np.uint8).view(FLOAT8[kind]).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    largest = values[-1]
    ends = np.array(
        [largest * 1.0624, largest * 1.0625, largest * 1.125, largest * 2, 1e30, 3e38], np.float32
    )
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2, ends, -ends])
    points = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)])
    small = np.array([1e-30, -1e-30, 1e-38, 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    return np.concatenate([points, small]).astype(np.float32)


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("kind", list(FLOAT8))
def test_cast_rounds_as_onnx_says(kind: str, saturate: int, tmp_path: Path) -> None:
    x = awkward(kind)
    if kind == "float4e2m1":
        x = x[~np.isnan(x)]  # it has no NaN, and ONNX does not say what becomes of one
    body = f"y = Cast <to = {NUMBERS[kind]}, saturate = {saturate}> (x)"
    if kind == "float4e2m1":
        body = f"y = Cast <to = {NUMBERS[kind]}> (x)"
    ran = run_legalised(
        model_of(f"float[{x.size}] x", body, f"{kind}[{x.size}] y", opset=23, ir=11), {"x": x}, tmp_path
    )
    assert [(io.name, io.before, io.after) for io in ran.result.io_types] == [
        ("y", str(np.dtype(FLOAT8[kind])), "float32")
    ]
    ran.check()


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_cast_to_a_power_of_two(mode: str, saturate: int, tmp_path: Path) -> None:
    powers = np.ldexp(1.0, np.arange(-126, 128)).astype(np.float32)
    points = np.concatenate([powers, powers * np.float32(1.5)])
    points = np.concatenate(
        [points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(2e38))]
    )
    points = points[(points >= 2.0**-126) & (points <= 2.0**127)]
    x = np.concatenate([points, np.array([np.nan], np.float32), np.float32([2.0**-126])]).astype(np.float32)
    body = f'y = Cast <to = 24, saturate = {saturate}, round_mode = "{mode}"> (x)'
    model = model_of(f"float[{x.size}] x", body, f"float8e8m0[{x.size}] y", opset=25, ir=12)
    ran = run_legalised(model, {"x": x}, tmp_path)
    ran.check()


def test_what_is_beyond_powers_of_two(tmp_path: Path) -> None:
    """As the table in ONNX's Cast has it; its reference gives NaN for infinity in both cases."""
    x = np.array([0.0, np.inf, 3.3e38, 1e-45, np.nan], np.float32)
    expected = {1: [2.0**-127, 2.0**127, 2.0**127, 2.0**-126, np.nan], 0: [np.nan] * 5}
    for saturate, wanted in expected.items():
        body = f'y = Cast <to = 24, saturate = {saturate}, round_mode = "up"> (x)'
        ran = run_legalised(
            model_of("float[5] x", body, "float8e8m0[5] y", opset=25, ir=12), {"x": x}, tmp_path
        )
        np.testing.assert_array_equal(ran.got["y"].astype(np.float64), wanted)


@pytest.mark.parametrize("kind", list(FLOAT8))
@pytest.mark.parametrize("target", ["float", "float16", "bfloat16"])
def test_every_value_comes_back(kind: str, target: str, tmp_path: Path) -> None:
    codes = np.arange(16 if kind == "float4e2m1" else 256, dtype=np.uint8)
    x = codes.view(FLOAT8[kind])
    to = {"float": 1, "float16": 10, "bfloat16": 16}[target]
    model = model_of(
        f"{kind}[{x.size}] x",
        f"z = Cast <to = {to}> (x) y = Cast <to = 1> (z)",
        f"float[{x.size}] y",
        opset=23,
        ir=11,
    )
    ran = run_legalised(model, {"x": x}, tmp_path)
    assert ran.result.io_types[0].after == "float32"
    ran.check()
