"""Slices at which a condition holds. The oracle is numpy's own operator."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

SLICES = "SelectedSlices"


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(7)
    return {"x": rng.normal(size=(2, 6, 3)).astype(np.float32), "condition": rng.random(5) < 0.6}


def _selected(inputs: Arrays) -> tuple[np.ndarray, ...]:
    return np.compress(inputs["condition"], inputs["x"], axis=1), inputs["condition"].sum()


EXAMPLES = (Example(SLICES, SLICES, "trtsmith", {"axis": -2}, _inputs, _selected),)

SHAPES = {"x": (3, 4), "condition": (4,)}
INCONSISTENT = (
    Inconsistent(SLICES, SHAPES, {"x": (4,)}, "axis = 1, but x has 1 dim", {"axis": 1}),
    Inconsistent(SLICES, SHAPES, {}, "axis = -3, but x has 2", {"axis": -2}, {"axis": -3}),
)

LARGEST = (Largest(SLICES, {"axis": 1}, (("float32", (0, Largest.SIZE)), ("bool", (Largest.SIZE,)))),)
