"""What repeated runs of an engine are counted as, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from repeated_runs import spread

X = np.array([[3.0, 4.0]], np.float32)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([X, X, X], (0, 0.0)),
        ([X, X * np.float32(1 + 1e-6), X], (0, pytest.approx(1e-6, rel=0.1))),
        ([X * 2, X, X, X + np.float32(3)], (2, pytest.approx(1.0))),
    ],
)
def test_results_are_compared_with_the_commonest(
    results: list[np.ndarray], expected: tuple[int, float]
) -> None:
    assert spread(results) == expected
