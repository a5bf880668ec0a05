"""The largest elements along an axis. The oracle counts, for every element, those that precede it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers

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


def huge(size: int, device: str) -> Huge:
    """Rows of 65,600 elements, two above 0 in each: at 32,800 rows x has 2.15e9 elements (4.3 GB)."""
    import torch

    columns = 2 * size
    x = torch.zeros(size, columns, device=device, dtype=torch.float16)
    rows = torch.arange(size, device=device)
    places = (rows * 7919 + 13) % columns
    x[rows, places] = 2.0
    x[rows, (places + 5) % columns] = 1.0
    last = slice(max(size - 16, 0), size)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        values, indices = outputs
        return [
            ("largest of the last rows", numbers(values[last, 0]), np.full(len(rows[last]), 2.0)),
            ("their places", numbers(indices[last, 0]), numbers(places[last])),
            ("places of the next", numbers(indices[last, 1]), numbers((places[last] + 5) % columns)),
        ]

    return Huge({"k": 2, "axis": -1, "largest": 1}, {"x": x}, check)


HUGE = HugeCase(huge, size=32800, small=40)
