"""Comparisons: what agrees, everything that must not, and the figures."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

from trtsmith.converter.cli.reports.comparison import render_comparisons
from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.tolerances import TOLERANCE, parse_tolerances
from trtsmith.converter.verify.verdict import judge

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def one(expected: np.ndarray, actual: np.ndarray, **limits: list[str]) -> tuple[bool, str]:
    (result,) = compare({"y": expected}, {"y": actual}, parse_tolerances(**limits) if limits else None)
    return result.agrees, result.reason


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_tolerance_of_a_type_holds_on_both_sides(dtype: str) -> None:
    kind = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(ml_dtypes.bfloat16)
    expected = np.full(1000, 1.0, kind)
    for factor, agrees in ((0.4, True), (3.0, False)):
        step = np.finfo(np.float64).eps if dtype == "float64" else float(ml_dtypes.finfo(kind).eps)
        change = max(TOLERANCE[dtype] * factor, step)
        assert one(expected, (expected.astype(np.float64) + change).astype(kind))[0] is agrees


def test_float8_and_strings_are_not_compared() -> None:
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.complex64):
        assert one(np.ones(2, kind), np.ones(2, kind)) == (
            False,
            f"dtype {np.dtype(kind)} cannot be compared",
        )
    assert one(np.array(["a"], object), np.array(["a"], object)) == (False, "dtype object cannot be compared")


def test_shape_type_and_absence() -> None:
    assert one(A, A[:2]) == (False, "shape [2, 4], expected [3, 4]")
    assert one(A, A.astype(np.float64)) == (False, "dtype float64, expected float32")
    (result,) = compare({"y": A}, {})
    assert (result.agrees, result.reason) == (False, "missing")


def test_integers_and_booleans_must_be_equal() -> None:
    assert one(np.arange(3), np.arange(3)) == (True, "equal")
    (result,) = compare({"y": np.arange(4).reshape(2, 2)}, {"y": np.array([[0, 1], [9, 9]])})
    assert (result.agrees, result.reason, result.worst) == (False, "2 elements differ", (1, 0))
    assert one(np.array([True]), np.array([False])) == (False, "1 elements differ")


@pytest.mark.parametrize(
    ("there", "here", "agrees"),
    [
        (np.nan, np.nan, True), (np.nan, 1, False), (1, np.nan, False), (np.inf, np.inf, True),
        (np.inf, -np.inf, False), (np.inf, 3e38, False), (np.nan, np.inf, False),
    ],
)  # fmt: skip
def test_what_is_not_finite_must_be_the_same(there: float, here: float, agrees: bool) -> None:
    expected, actual = A.copy(), A.copy()
    expected[1, 2], actual[1, 2] = there, here
    for limits in ({}, {"rtol": ["1e30"], "atol": ["1e30"]}):
        assert one(expected, actual, **limits)[0] is agrees
    (result,) = compare({"y": expected}, {"y": actual})
    assert agrees or result.worst == (1, 2)


def test_a_result_against_zeros() -> None:
    zeros = np.zeros(3, np.float32)
    assert one(zeros, zeros)[0] is True
    (result,) = compare({"y": zeros}, {"y": zeros + 1})
    assert (result.agrees, result.relative) == (False, float("inf"))
    document = judge((result,), "generated", engine_run=False).to_json()
    assert json.loads(json.dumps(document, allow_nan=False))["comparisons"][0]["relative"] is None


def test_statistics() -> None:
    actual = A.copy()
    actual[2, 1] += 0.5
    (result,) = compare({"y": A}, {"y": actual})
    assert result.worst == (2, 1)
    assert result.max == pytest.approx(0.5) and result.mean == pytest.approx(0.5 / 12)
    assert result.relative == pytest.approx(0.5 / np.linalg.norm(A), rel=1e-5)
    assert not result.agrees and 0 < result.p99 < 0.5


def test_the_angle_and_the_worst_pair() -> None:
    (result,) = compare({"y": A}, {"y": 2 * A})
    assert result.cosine == pytest.approx(1) and (result.worst, result.expected, result.actual) == (
        (2, 3),
        2,
        4,
    )
    (result,) = compare({"y": A}, {"y": -A})
    assert result.cosine == pytest.approx(-1)
    (result,) = compare({"y": np.array([1.0, 0.0])}, {"y": np.array([0.0, 3.0])})
    assert (result.cosine, result.worst, result.expected, result.actual) == (0.0, (1,), 0.0, 3.0)


def test_what_a_precision_allows() -> None:
    moved = A.copy()
    moved[0, 0] += 0.05
    for allowed, agrees in ((None, False), ({"y": 0.02}, True), ({"y": 0.001}, False), ({"z": 0.02}, False)):
        (result,) = compare({"y": A}, {"y": moved}, allowed=allowed)
        assert result.agrees is agrees, allowed
    counted = np.arange(10)
    swapped = counted[[1, 0, 2, 3, 4, 5, 6, 7, 8, 9]]
    for share, agrees in ((0.0, False), (0.1, False), (0.2, True)):
        (result,) = compare({"y": counted}, {"y": swapped}, allowed={"y": share})
        assert result.agrees is agrees and result.reason.startswith("2 elements differ")
    (result,) = compare({"y": A}, {"y": moved}, parse_tolerances(["1e-6"]), {"y": 1.0})
    assert not result.agrees  # what the user says holds


def test_large_integers_differ_by_one() -> None:
    (result,) = compare({"y": np.array([7, 2**62])}, {"y": np.array([7, 2**62 + 1])})
    assert not result.agrees and result.worst == (1,)


def test_the_share_of_the_tolerance_is_above_one_where_outputs_disagree() -> None:
    def used(
        expected: np.ndarray, actual: np.ndarray, share: float | None = None, **limits: list[str]
    ) -> object:
        tolerances = parse_tolerances(**limits) if limits else None
        allowed = None if share is None else {"y": share}
        (result,) = compare({"y": expected}, {"y": actual}, tolerances, allowed)
        assert result.used is None or result.agrees is (result.used <= 1)
        return result.used

    ones = np.ones(4)
    assert used(ones, ones) == 0
    assert used(ones, ones + 5e-5) == pytest.approx(0.5)
    assert used(ones, ones + 5e-5, share=1e-5) == pytest.approx(5)
    assert used(ones, ones + np.array([0, 0, 0, 0.3]), rtol=["0.1"], atol=["0.05"]) == pytest.approx(2)
    assert used(ones, ones, rtol=["0"], atol=["0"]) == 0  # nothing may differ, and nothing does
    assert used(ones, ones + 1, rtol=["0"], atol=["0"]) is None
    assert used(ones, ones * np.nan) is None
    assert used(np.zeros(4), ones) is None
    whole = np.arange(8)
    assert used(whole, whole) == 0
    assert used(whole, np.where(whole == 0, 1, whole)) is None
    assert used(whole, np.where(whole == 0, 1, whole), share=0.25) == 0.5


def test_equal_numbers_have_no_worst_element() -> None:
    x = np.array([[1.5, -2.0]], np.float32)
    (result,) = compare({"y": x}, {"y": x.copy()})
    assert result.agrees and (result.relative, result.max, result.cosine) == (0.0, 0.0, 1.0)
    assert (result.worst, result.expected, result.actual) == ((), None, None)
    assert "expected" not in render_comparisons([result])
