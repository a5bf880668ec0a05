"""Only agreement of every output is a pass."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import Verdict, judge

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def outputs_of(*arrays: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip("abc", arrays, strict=False))


def judged(outputs: dict[str, np.ndarray], *not_compared: str, **options: Any) -> Verdict:
    """The verdict on outputs that are what is expected."""
    tolerances = parse_tolerances(not_compared=not_compared)
    return judge(compare(outputs, outputs), "i", engine_run=True, tolerances=tolerances, **options)


def test_only_agreement_of_every_output_passes() -> None:
    good = compare({"a": A}, {"a": A})
    assert judge(good, "i", engine_run=True).passed
    for comparisons, status in (
        ((), "not comparable"),
        (compare({"e": A[:0]}, {"e": A[:0]}), "not comparable"),
        ((*good, *compare({"e": A[:0]}, {"e": A[:0]})), "agrees in part"),
        ((*good, *compare({"z": A}, {})), "disagree"),
    ):
        verdict = judge(comparisons, "i", engine_run=False)
        assert (verdict.status, verdict.passed) == (status, False)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.full(3, np.nan, np.float32), "it is NaN or infinite everywhere"),
        (np.full(3, -np.inf, np.float32), "it is NaN or infinite everywhere"),
        (np.where(np.arange(2000) < 1, 1, np.nan), "it is NaN or infinite in all but 1 of 2000 elements"),
        (np.zeros((2, 3), np.float32), "it is zero everywhere"),
        (np.zeros(4, bool), "it is False everywhere"),
        ((np.arange(2000) < 1).astype(np.int64), "it is zero in all but 1 of 2000 elements"),
        (np.full(16, 2.5, np.float32), "it is 2.5 everywhere"),
        (np.zeros((0, 4), np.float32), "it is empty"),
    ],
)
def test_an_output_that_proves_nothing_is_not_compared(array: np.ndarray, words: str) -> None:
    """An engine that writes nothing gives zeros, too."""
    verdict = judged(outputs_of(A, array))
    assert verdict.status == "agrees in part" and verdict.outputs == {"a": "agree", "b": "not comparable"}
    assert verdict.reason == "1 of 2 outputs compared: largest relative error 0.0e+00"
    (left,) = verdict.left_out
    assert left.why.startswith(f"output 'b' is not comparable: {words}") and "--inputs FILE.npz" in left.why
    alone = judged({"b": array}, "b")
    assert alone.status == "not comparable" and alone.reason.startswith("output 'b'")
    wrong = judge(compare(outputs_of(A, array), outputs_of(-A, array)), "i", engine_run=True)
    assert wrong.status == "disagree" and len(wrong.left_out) == 1


def test_what_the_user_accepts_is_shown_and_passes() -> None:
    verdict = judged(outputs_of(A, np.zeros(3)), "b")
    assert verdict.passed and verdict.outputs == {"a": "agree", "b": "not compared"}
    assert verdict.reason == "largest relative error 0.0e+00; 1 not compared, as accepted"
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    wrong = judge(
        compare({"a": A, "b": A}, {"a": A, "b": -A}),
        "i",
        engine_run=True,
        tolerances=parse_tolerances((), (), ("b",)),
    )
    assert wrong.status == "disagree"


def test_an_output_that_the_graph_proves_constant_agrees() -> None:
    assert judged(outputs_of(A, np.zeros(3)), constant=("b",)).passed
    assert not judged({"b": np.full(3, np.nan)}, constant=("b",)).passed


def test_one_set_of_inputs_is_enough_for_values_and_not_for_numbers() -> None:
    """Zeros at the smallest size say nothing, and something at the next; NaN at one size is unknown there."""
    for first, status in ((np.zeros(3), "agree"), (np.full(3, np.nan), "not comparable")):
        sets = (*compare({"y": first}, {"y": first}, at="min"), *compare({"y": A}, {"y": A}, at="max"))
        assert judge(sets, "i", engine_run=True).status == status


def test_documents_of_before_are_read() -> None:
    """Verdicts in manifests of versions that did not tell of the reference."""
    document = judge(compare({"y": A}, {"y": A}), "i", engine_run=True).to_json()
    assert document.pop("references") == ()
    assert Verdict.from_json(document).references == ()


def test_the_place_of_a_disagreement() -> None:
    verdict = judge(compare({"y": A}, {"y": -A}, at="max"), "i", engine_run=True)
    assert verdict.reason.startswith("y at max: relative error 2.0e+00")
