"""The largest elements along an axis. The oracle counts for every element those that come before it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

TOP = "TopElements"


def _inputs() -> dict[str, np.ndarray | None]:
    return {"x": np.random.default_rng(3).integers(-9, 9, (3, 25, 2)).astype(np.float32)}


def _best(inputs: Arrays) -> tuple[np.ndarray, ...]:
    x = inputs["x"].astype(np.float64)
    values, indices = np.zeros((3, 12, 2)), np.zeros((3, 12, 2))
    for outer, inner in np.ndindex(3, 2):
        row = x[outer, :, inner]
        for place, value in enumerate(row):
            rank = int((row > value).sum() + (row[:place] == value).sum())
            if rank < 12:
                values[outer, rank, inner], indices[outer, rank, inner] = value, place
    return values, indices


EXAMPLES = (Example(TOP, TOP, "trtsmith", {"k": 12, "axis": 1, "largest": 1}, _inputs, _best),)

FIELDS = {"k": 5, "axis": 1, "largest": 1}
INCONSISTENT = (
    Inconsistent(
        TOP, {"x": (2, 7)}, {}, "axis = 2, but x has 2 dimensions", FIELDS, wrong_fields={"axis": 2}
    ),
    Inconsistent(TOP, {"x": (2, 7)}, {}, "k = 8, but the axis has 7 elements", FIELDS, wrong_fields={"k": 8}),
)
