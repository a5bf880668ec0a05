"""The unique slices of a tensor. The oracle is numpy's own operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import (
    SAMPLED,
    Arrays,
    Example,
    Huge,
    HugeCase,
    Inconsistent,
    Largest,
    numbers,
)

UNIQUE = "UniqueSlices"


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(8)
    return {"x": rng.integers(-1, 2, (2, 12, 1)).astype(np.float32)}


def _unique(inputs: Arrays) -> tuple[np.ndarray, ...]:
    found = np.unique(inputs["x"], return_index=True, return_inverse=True, return_counts=True, axis=1)
    return (*(part.reshape(-1) if i else part for i, part in enumerate(found)), np.array(len(found[1])))


def _codes() -> dict[str, np.ndarray | None]:
    return {"x": np.array([40, 3, -7, 3, 40, 3], np.float32)}


def _codes_of_voxels(inputs: Arrays) -> tuple[np.ndarray, ...]:
    different, inverse, counts = np.unique(inputs["x"], return_inverse=True, return_counts=True)
    return different, inverse, counts, np.array(len(different))


EXAMPLES = (
    Example(UNIQUE, UNIQUE, "trtsmith", {"axis": 1, "sorted": 1}, _inputs, _unique),
    Example(UNIQUE, "CustomUnique", "autoware", {}, _codes, _codes_of_voxels, types=("E", "N", "N", "N")),
)

FIELDS = {"axis": 1, "sorted": 1}
INCONSISTENT = (
    Inconsistent(UNIQUE, {"x": (3, 4)}, {"x": (4,)}, "axis = 1, but x has 1 dim", FIELDS),
    Inconsistent(UNIQUE, {"x": (3, 4)}, {}, "axis = -3, but x has 2", FIELDS, {"axis": -3}),
)

LARGEST = (Largest(UNIQUE, FIELDS, (("int64", (0, Largest.SIZE)),)),)


def huge(side: int, device: str) -> Huge:
    """Rows of side elements, the last ones as the first: at 46400, x and the output's room have 2.15e9 elements (4.3 GB)."""
    import torch

    x = torch.randn(side, side, device=device, dtype=torch.float16)
    again = min(SAMPLED, side // 3)
    x[-again:] = x[:again]
    count = side - again

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output, first, inverse, _, found = outputs
        packed = output.reshape(-1)[: count * side].reshape(count, side)
        groups = inverse.long().clamp(0, count - 1)
        middle = slice(side // 2, side // 2 + again)
        return [
            ("count", numbers(found), np.array(float(count))),
            ("middle rows", numbers(packed[groups[middle]]), numbers(x[middle])),
            ("last rows", numbers(packed[groups[-again:]]), numbers(x[-again:])),
            ("first positions of the last rows", numbers(first[groups[-again:]]), np.arange(again) + 0.0),
            ("order", numbers(packed[:, 0]), np.sort(numbers(x[:count, 0]))),
        ]

    return Huge({"axis": 0, "sorted": 1}, {"x": x}, check)


HUGE = HugeCase(huge, size=46400, small=150)
