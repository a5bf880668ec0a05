"""Only agreement is a pass."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.verdict import Verdict, judge

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def test_only_agreement_passes() -> None:
    good = compare({"a": A, "e": A[:0]}, {"a": A, "e": A[:0]})
    assert (judge(good, "i", engine_run=True).status, judge(good, "i", engine_run=True).passed) == (
        "agree",
        True,
    )
    for comparisons, status in (
        ((), "not comparable"),
        (compare({"e": A[:0]}, {"e": A[:0]}), "not comparable"),
        ((*good, *compare({"z": A}, {})), "disagree"),
    ):
        verdict = judge(comparisons, "i", engine_run=False)
        assert (verdict.status, verdict.passed) == (status, False)


def test_nothing_finite_is_not_a_pass() -> None:
    nowhere = np.full(3, np.nan, np.float32)
    verdict = judge(compare({"y": nowhere}, {"y": nowhere}), "i", engine_run=True)
    assert verdict.status == "not comparable" and verdict.reason.startswith("output 'y' is not comparable: ")
    nothing = {"y": nowhere, "z": A[:0]}
    verdict = judge(compare(nothing, nothing), "i", engine_run=True)
    assert verdict.status == "not comparable" and verdict.reason.startswith(
        "every output that is left is empty; output 'y'"
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_output_that_is_finite_nowhere_is_left_out_and_named(value: float) -> None:
    """It counted as one that agrees: of two outputs with an error in one, half a verdict was shown as a whole one."""
    outputs = {"y": np.full(3, value, np.float32), "z": A}
    verdict = judge(
        compare(outputs, outputs, at="max 3"), "i", engine_run=True, excluded=("output 'r' draws",)
    )
    assert verdict.passed and [c.output for c in verdict.comparisons] == ["z"]
    assert verdict.reason == "largest relative error 0.0e+00; 2 not comparable"
    assert verdict.excluded[0] == "output 'r' draws"
    assert verdict.excluded[1].startswith(
        "output 'y' at max 3 is not comparable: it is NaN or infinite everywhere"
    )
    assert "--inputs FILE.npz" in verdict.excluded[1]
    wrong = judge(compare(outputs, outputs | {"z": -A}), "i", engine_run=True)
    assert wrong.status == "disagree" and len(wrong.excluded) == 1
    one_side = judge(compare(outputs, outputs | {"y": A[0, :3]}), "i", engine_run=True)
    assert one_side.status == "disagree"


def test_documents_of_before_are_read() -> None:
    """Verdicts in manifests of versions that did not tell of the reference."""
    document = judge(compare({"y": A}, {"y": A}), "i", engine_run=True).to_json()
    assert document.pop("references") == ()
    assert Verdict.from_json(document).references == ()


def test_the_place_of_a_disagreement() -> None:
    verdict = judge(compare({"y": A}, {"y": -A}, at="max"), "i", engine_run=True)
    assert verdict.reason.startswith("y at max: relative error 2.0e+00")
