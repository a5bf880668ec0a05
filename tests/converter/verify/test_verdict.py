"""Only agreement is a pass."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.verdict import judge

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
    assert (verdict.status, verdict.reason) == ("not comparable", "no output has a finite element")
    verdict = judge(compare({"y": nowhere, "z": A}, {"y": nowhere, "z": A}), "i", engine_run=True)
    assert verdict.passed


def test_the_place_of_a_disagreement() -> None:
    verdict = judge(compare({"y": A}, {"y": -A}, at="max"), "i", engine_run=True)
    assert verdict.reason.startswith("y at max: relative error 2.0e+00")
