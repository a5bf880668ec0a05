"""Invented foreign nodes for the toy operator. The oracle takes a maximum over three samples."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

PEAKS = "LocalPeaks"


def _inputs() -> dict[str, np.ndarray | None]:
    return {
        "x": np.random.default_rng(3).permutation(30).astype(np.float32),
        "least": np.array([10.0], np.float32),
    }


def _positions(inputs: Arrays) -> np.ndarray:
    x = np.pad(inputs["x"].astype(np.float64), 1, constant_values=-np.inf)
    highest = np.max([x[:-2], x[1:-1], x[2:]], axis=0)
    return np.flatnonzero((x[1:-1] == highest) & (x[1:-1] > inputs["least"][0]))


def _all(inputs: Arrays) -> tuple[np.ndarray, ...]:
    return _positions(inputs), np.array(len(_positions(inputs)))


EXAMPLES = (
    Example(PEAKS, "FindPeaks", "signal", {"flat": 0}, _inputs, _positions),
    Example(PEAKS, PEAKS, "trtsmith", {"plateaus": 0}, _inputs, _all),
)

INCONSISTENT = (
    Inconsistent(PEAKS, {"x": (7,), "least": (1,)}, {"least": (2,)}, "least has 2 elements", {"plateaus": 0}),
)

HUGE = "it is a toy, and counts in 32 bits"

LARGEST = (Largest(PEAKS, {"plateaus": 1}, (("float16", (Largest.SIZE,)),)),)
