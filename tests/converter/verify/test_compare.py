"""Comparisons by tolerance, and the verdict: what agrees, what must not, and the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.reports.comparison import render_comparisons
from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.tolerances import TOLERANCE, parse_tolerances
from trtsmith.converter.verify.verdict import Proof, Verdict, verdict_of

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
    assert one(np.array([True]), np.array([False])) == (False, "1 element differs")


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
    document = verdict_of((result,), "generated", engine_run=False).to_json()
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


def test_tolerances_by_element_and_by_output() -> None:
    limits = parse_tolerances(["0.1", "z:0"], ["a:b:0.5"])
    assert (limits.of("y"), limits.of("z"), limits.of("a:b")) == ((0.1, 0.0), (0.0, 0.0), (0.1, 0.5))
    assert parse_tolerances([], ["z:1"]).of("y") is None
    assert one(A, A * 1.05, rtol=["0.1"])[0] is True
    assert one(A, A * 1.2, rtol=["0.1"]) == (False, "12 elements beyond rtol 0.1, atol 0")
    assert one(A, A + 0.2, atol=["0.1"])[0] is False
    assert one(A, A + 0.2, atol=["y:0.3"])[0] is True


@pytest.mark.parametrize("text", ["", ":", "y:", "abc", "nan", "inf", "-1", "y:-1", "y:nan", "1e-3:y"])
def test_nonsense_tolerances(text: str) -> None:
    with pytest.raises(UsageError, match="is not a tolerance"):
        parse_tolerances([text])


def test_tolerances_of_outputs_that_are_not_there() -> None:
    with pytest.raises(UsageError) as error:
        parse_tolerances(["q:1", "1"], ["r:1", "y:1"]).check_outputs(["y"])
    assert [p.where for p in error.value.problems] == ["--rtol q:1", "--atol r:1"]


def outputs_of(*arrays: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip("abc", arrays, strict=False))


def judged(outputs: dict[str, np.ndarray], *not_compared: str, **options: Any) -> Verdict:
    """The verdict on outputs that are what is expected."""
    tolerances = parse_tolerances(not_compared=not_compared)
    return verdict_of(compare(outputs, outputs), "i", engine_run=True, tolerances=tolerances, **options)


def test_only_agreement_of_every_output_passes() -> None:
    good = compare({"a": A}, {"a": A})
    assert verdict_of(good, "i", engine_run=True).passed
    for comparisons, status in (
        ((), "not comparable"),
        (compare({"e": A[:0]}, {"e": A[:0]}), "not comparable"),
        ((*good, *compare({"e": A[:0]}, {"e": A[:0]})), "agree"),
        ((*good, *compare({"z": A}, {})), "disagree"),
    ):
        verdict = verdict_of(comparisons, "i", engine_run=False)
        assert (verdict.status, verdict.passed) == (status, status == "agree")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.where(np.arange(2000) < 1, 1, np.nan), "it is NaN or infinite in all but 1 of 2000 elements"),
        (np.zeros((2, 3), np.float32), "it is zero everywhere"),
        (np.zeros(4, bool), "it is False everywhere"),
        ((np.arange(2000) < 1).astype(np.int64), "it is zero in all but 1 of 2000 elements"),
        (np.full(16, 2.5, np.float32), "it is 2.5 everywhere"),
        (np.zeros((0, 4), np.float32), "it is empty"),
    ],
)
def test_an_output_that_proves_little_agrees_where_it_is_equal(array: np.ndarray, words: str) -> None:
    """The line says so. An output that is wrong beside it is no less wrong."""
    verdict = judged(outputs_of(A, array))
    assert verdict.passed and verdict.outputs == {"a": "agree", "b": "agree"} and not verdict.left_out
    assert (
        verdict.reason == f"largest relative error 0.0e+00; 'b' proves little: {words}, in the reference too"
    )
    alone = judged({"b": array})
    assert alone.passed if array.size else (alone.status == "not comparable" and "empty" in alone.reason)
    wrong = verdict_of(compare(outputs_of(A, array), outputs_of(-A, array)), "i", engine_run=True)
    assert wrong.status == "disagree" and not wrong.left_out


@pytest.mark.parametrize(
    ("array", "other", "words"),
    [
        (np.full(3, np.nan, np.float32), 1.0, "it is NaN or infinite everywhere"),
        (np.full(3, -np.inf, np.float32), 1.0, "it is NaN or infinite everywhere"),
        (np.full(16, 2.5, np.float32), 1 + 1e-6, "it is 2.5 everywhere"),
    ],
)
def test_an_output_that_proves_nothing_is_not_compared(array: np.ndarray, other: float, words: str) -> None:
    """Nothing finite, or one value that is nearly met, also where the user gave the outputs."""
    expected, found = outputs_of(A, array), outputs_of(A, array * np.float32(other))
    verdict = verdict_of(compare(expected, found), "i", engine_run=True)
    assert verdict.status == "agrees in part" and verdict.outputs == {"a": "agree", "b": "not comparable"}
    (left,) = verdict.left_out
    assert left.why == f"output 'b' is not comparable: {words}, in the reference too"
    assert verdict.reason == f"1 of 2 outputs compared: largest relative error 0.0e+00; {left.why}"
    assert verdict.advice.endswith(": --inputs FILE.npz; or accept that: --not-compared b")
    alone = verdict_of(compare({"b": array}, {"b": found["b"]}), "i", engine_run=True)
    assert alone.status == "not comparable" and alone.reason == left.why
    assert alone.advice == "give inputs for which it is not: --inputs FILE.npz"
    wrong = verdict_of(compare(expected, {**found, "a": -A}), "i", engine_run=True)
    assert wrong.status == "disagree" and len(wrong.left_out) == 1
    given = verdict_of(compare(expected, found), "i", engine_run=True, proof=Proof(given=True))
    assert given.status == "agrees in part" and given.left_out == verdict.left_out


def test_where_much_of_a_selection_does_not_match_real_inputs_are_asked_for() -> None:
    (equal,) = compare({"a": A}, {"a": A})
    generated = finding("generated", inputs={"x": "float32[1,3]"})
    for share, findings, told in (
        (0.25, [generated], "25% of 'a' does not match the reference"),
        (0.1, [generated], ""),
        (0.25, [], ""),
    ):
        found = (replace(equal, unmatched=share),)
        verdict = verdict_of(found, "generated", engine_run=True, findings=findings)
        assert (
            verdict.status == "agree"
            and verdict.advice.startswith(told)
            and bool(verdict.advice) == bool(told)
        )
        assert ("compare with real inputs: --inputs FILE.npz, which np.savez" in verdict.advice) == bool(told)


def test_expected_values_that_float16_lost_are_advised_of() -> None:
    """A module in float16 that overflows gives NaN, and the graph, which keeps the node in float32, does not."""
    lost = np.where(np.arange(A.size).reshape(A.shape) < 3, np.nan, A)
    verdict = verdict_of(compare({"a": lost}, {"a": A}), "i", engine_run=False)
    assert verdict.status == "disagree" and "give it in float32" in verdict.advice
    other = verdict_of(compare({"a": A}, {"a": lost}), "i", engine_run=False)
    assert other.status == "disagree" and "give it in float32" not in other.advice


def test_what_the_user_accepts_is_shown_and_passes() -> None:
    verdict = judged(outputs_of(A, np.full(3, np.nan)), "b")
    assert verdict.passed and verdict.outputs == {"a": "agree", "b": "not compared"}
    assert verdict.reason == "largest relative error 0.0e+00; 1 not compared, as accepted"
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    wrong = verdict_of(
        compare({"a": A, "b": A}, {"a": A, "b": -A}),
        "i",
        engine_run=True,
        tolerances=parse_tolerances((), (), ("b",)),
    )
    assert wrong.status == "disagree"


def test_an_output_that_the_graph_proves_constant_agrees() -> None:
    proof = Proof(constant=("b",))
    assert judged(outputs_of(A, np.zeros(3)), proof=proof).passed
    assert not judged({"b": np.full(3, np.nan)}, proof=proof).passed


def test_one_set_of_inputs_is_enough_for_values_and_not_for_numbers() -> None:
    """Zeros at the smallest size say nothing, and something at the next; NaN at one size is unknown there."""
    for first, status in ((np.zeros(3), "agree"), (np.full(3, np.nan), "not comparable")):
        sets = (*compare({"y": first}, {"y": first}, at="min"), *compare({"y": A}, {"y": A}, at="max"))
        assert verdict_of(sets, "i", engine_run=True).status == status


def test_documents_of_before_are_read() -> None:
    """Verdicts in manifests of versions that had only the sentence."""
    document = verdict_of(compare({"y": A}, {"y": A}), "i", engine_run=True).to_json()
    for name in ("references", "findings", "advice", "cost", "basis"):
        del document[name]
    assert Verdict.from_json(document).reason == document["reason"]


def test_the_place_of_a_disagreement() -> None:
    verdict = verdict_of(compare({"y": A}, {"y": -A}, at="max"), "i", engine_run=True)
    assert verdict.reason.startswith("y at max: relative error 2.0e+00")
