"""Slices where a condition holds. The oracle is numpy's own operator."""

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


def huge(side: int, device: str) -> Huge:
    """Half of the rows of two images: at 32800x32800, x has 2.15e9 elements, and the output room for as many (4.3 GB)."""
    import torch

    x = torch.randn(2, side, side, device=device, dtype=torch.float16)
    condition = torch.rand(side, device=device) < 0.5
    condition[-1] = True
    taken = condition.nonzero()[:, 0]
    count = len(taken)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        packed = outputs[0].reshape(-1)[: 2 * count * side].reshape(2, count, side)
        return [
            ("count", numbers(outputs[1]), np.array(float(count))),
            ("first rows", numbers(packed[0, :SAMPLED]), numbers(x[0, taken[:SAMPLED]])),
            ("last rows", numbers(packed[1, -SAMPLED:]), numbers(x[1, taken[-SAMPLED:]])),
        ]

    return Huge({"axis": 1}, {"x": x, "condition": condition}, check)


HUGE = HugeCase(huge, size=32800, small=150)
