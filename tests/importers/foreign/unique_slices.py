"""The different slices of a tensor. The oracle is numpy's own operator."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

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
