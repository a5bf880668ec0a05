"""The ascending order of elements, as in Autoware's plugin."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

ORDER = "AscendingOrder"


def inputs() -> dict[str, np.ndarray | None]:
    return {"x": np.array([5, -2, 8, 5, 0, -2, 5], np.float32)}


def oracle(arrays: Arrays) -> np.ndarray:
    """By insertion, behind those that are not larger."""
    order: list[int] = []
    for i, value in enumerate(arrays["x"]):
        order.insert(sum(bool(arrays["x"][j] <= value) for j in order), i)
    return np.array(order)


EXAMPLES = (
    Example(ORDER, "Argsort", "autoware", {}, inputs, oracle),
    Example(ORDER, ORDER, "trtsmith", {}, inputs, oracle),
)

INCONSISTENT = (Inconsistent(ORDER, {"x": (5,)}, {"x": (5, 2)}, "x has 2 dimensions, not 1"),)


HUGE = "of 2^31 elements, the workspace alone would have 69 GB"
