"""The shortest run against all runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from trtsmith.converter.locate.shortest import shortest


@dataclass
class Needed:
    """What holds for runs with these places in them."""

    first: int
    last: int
    asked: int = 0

    def __call__(self, low: int, high: int) -> bool:
        self.asked += 1
        return low <= self.first and self.last <= high


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_the_run_that_is_needed_is_found(count: int) -> None:
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        needed = Needed(first, last)
        assert shortest(count, needed) == (first, last)
        assert needed.asked <= 2 * count.bit_length()


def test_of_several_that_would_do_one_that_was_tried_comes_back() -> None:
    """Two places of which either is enough: then the later one is found, and no longer run."""
    assert shortest(10, lambda low, high: low <= 3 <= high or low <= 7 <= high) == (7, 7)
