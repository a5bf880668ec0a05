"""Makes what reductions of rows have in common: the field, the numpy reference of a segment, cases and checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Field, Kind, Refusal
from trtsmith.importers.ops._limits import faults_of_int32

SUM, MEAN, MAX, MIN = range(4)
NAMES = {"sum": SUM, "add": SUM, "mean": MEAN, "max": MAX, "min": MIN}
"""As torch_scatter calls them."""

REDUCTION = Field("reduction", Kind.INT, "0: sum, 1: mean, 2: largest, 3: smallest", allowed=(0, 1, 2, 3))

NAN_RULE = (
    "A NaN is passed over by the largest and the smallest: it counts as -infinity there, or as infinity. "
    "Sums are float32, rows are added in their order, and the result is the same in every run."
)


def check_rows(shapes: Any) -> list[str]:
    if shapes.get("source") == ():
        return ["source has no dimensions"]
    return faults_of_int32(shapes, ("source", 0))


def unknown_reduction(attribute: str, value: Any) -> Refusal | None:
    """torch_scatter also multiplies."""
    if value in NAMES:
        return None
    return Refusal(
        f"attribute {attribute!r} is {value!r}",
        "one of 'sum', 'mean', 'max' and 'min'",
        "export the node with one of them, or write products as standard operators",
    )


def reduce_rows(rows: np.ndarray, reduction: int) -> tuple[np.ndarray, np.ndarray]:
    """A row in float64 from rows [n, ...], n at least 1, and which of the n each number comes from."""
    wide = rows.astype(np.float64)
    if reduction in (SUM, MEAN):
        total = np.zeros(wide.shape[1:])
        for row in wide:
            total = total + row
        return total / (len(wide) if reduction == MEAN else 1), np.zeros(wide.shape[1:], np.int64)
    sign = 1 if reduction == MAX else -1
    known = np.where(np.isnan(wide), -np.inf, sign * wide)
    origin = np.asarray(known.argmax(axis=0))
    return sign * known.max(axis=0), origin


def source_rows(rng: np.random.Generator, rows: int, *columns: int) -> np.ndarray:
    """With equal numbers among the large ones and the small ones."""
    made = rng.normal(size=(rows, *columns))
    made[made > 1] = 1.5
    made[made < -1.5] = -1.75
    return made


def spoil(rng: np.random.Generator, source: np.ndarray) -> None:
    """NaN in some places and minus infinity in others: the largest number of several rows stays finite."""
    chosen = rng.random(source.shape) < 0.2
    source[chosen] = rng.choice([np.nan, -np.inf], int(chosen.sum()))
