"""Mistakes that are often made with expected outputs are recognised by the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.verify.expected_cause import MADE_ANEW, cause_of

RNG = np.random.default_rng(3)
PLAIN = {
    "boxes": RNG.normal(0, 1, (2, 5, 5)).astype(np.float32),
    "scores": RNG.normal(0, 1, (2, 5, 7)).astype(np.float32),
}
BOXES, SCORES = PLAIN["boxes"], PLAIN["scores"]


@pytest.mark.parametrize(
    ("given", "cause", "fix"),
    [
        (SCORES, "swapped names: it has the numbers of 'scores'", "swap the names in --expected"),
        (BOXES.transpose(0, 2, 1), "a transposition: it has the model's axes (0, 2, 1)", "transpose 'boxes'"),
        (BOXES * np.float32(640), "a factor: it is 640 times the model's", MADE_ANEW),
        (BOXES.astype(np.float16).astype(np.float32), "a computation in float16 or TF32", "without TF32"),
        (
            BOXES[::-1],
            "another order of the rows: row 0 is the model's row 1",
            "bring the rows of --expected",
        ),
        (BOXES[:, ::-1], "inputs of another preprocessing", MADE_ANEW),
        (np.zeros_like(BOXES), "an array that nothing was", "'boxes' is zero everywhere"),
        (BOXES + 1, "inputs of another preprocessing", MADE_ANEW),
        (np.ones_like(BOXES), "inputs of another preprocessing", MADE_ANEW),
        (np.full_like(BOXES, np.nan), "inputs of another preprocessing", MADE_ANEW),
        (BOXES[:, :4], "inputs of another preprocessing", MADE_ANEW),
        (BOXES.astype(np.int64), "inputs of another preprocessing", MADE_ANEW),
    ],
)
def test_what_was_done_with_an_output(given: np.ndarray, cause: str, fix: str) -> None:
    found, advice = cause_of("boxes", {**PLAIN, "boxes": given}, PLAIN)
    assert found.startswith(cause) and fix in advice
    assert "equal scores" not in found


def test_rows_of_a_selection_may_come_in_another_order() -> None:
    found, _ = cause_of("boxes", {**PLAIN, "boxes": BOXES[:, ::-1]}, PLAIN, selected=True)
    assert found.endswith("or equal scores come in another order")


def test_one_number_that_differs_is_no_rounding() -> None:
    given = BOXES.copy()
    given[0, 0, 0] += 2**-8
    assert cause_of("boxes", {"boxes": given}, PLAIN)[0].startswith("inputs of another")


def test_rows_that_are_nearly_equal_are_told_from_rounding() -> None:
    plain = {"boxes": np.concatenate([BOXES[:1], BOXES[:1] * np.float32(1.001)])}
    for given, cause in (
        (plain["boxes"][::-1], "another order"),
        (plain["boxes"] * np.float32(1.0004), "a comp"),
    ):
        assert cause_of("boxes", {"boxes": given}, plain)[0].startswith(cause)
