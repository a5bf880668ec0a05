"""Finds the shortest run of consecutive places for which something holds, by two binary searches."""

from __future__ import annotations

from collections.abc import Callable


def shortest(count: int, holds: Callable[[int, int], bool]) -> tuple[int, int]:
    """First and last place of it. For all of them, 0 to count - 1, it is known to hold.

    holds: of a first and a last place; it is taken to stay true when a run gets longer. What comes back was tried.
    """
    low, high = 0, count - 1  # the largest first place with which it holds
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle, count - 1):
            low = middle
        else:
            high = middle - 1
    first, high = low, count - 1  # the smallest last place with which it holds
    while low < high:
        middle = (low + high) // 2
        if holds(first, middle):
            high = middle
        else:
            low = middle + 1
    return first, low
