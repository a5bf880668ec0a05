"""Writes the beginning of both rulebooks' expansions in standard ONNX operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.importers.builder import Builder, Operand, Value


def column(numbers: Sequence[int]) -> np.ndarray:
    """Reshapes to [n, 1], so that it spreads over rows."""
    return np.array(numbers)[:, None]


def within(value: Value, size: int) -> Value:
    """Tells where 0 <= value < size."""
    return ~(value < 0) & (value < size)


def columns(g: Builder) -> tuple[Value, list[Value]]:
    """Returns image, z, y and x of the rows, int64 [N] each."""
    places = g.Cast("indices", to="int64")
    image, *cell = (g.Gather(places, number, axis=1) for number in range(4))
    return image, cell


def valid_rows(image: Value, cell: Sequence[Value], batch: int, sizes: Sequence[int]) -> Value:
    """Tells which rows lie in the grid, [N]."""
    valid = within(image, batch)
    for place, size in zip(cell, sizes, strict=True):
        valid = valid & within(place, size)
    return valid


def key(image: Value, cell: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Computes the number of a cell in row-major order; sizes are of z, y and x."""
    number = image
    for place, size in zip(cell, sizes, strict=True):
        number = number * size + place
    return number


def first_positions(
    g: Builder, made: Value, wanted: Value, count: Operand, wanted_count: Value, end_mark: int
) -> Value:
    """Finds the first position in `made` of each wanted key; `count` or more where there is none."""
    keys = g.Concat(made, wanted, [end_mark], axis=0)
    _, firsts, places, _ = g.Unique(keys, sorted=1, outputs=4)
    return g.Slice(g.Gather(firsts, places, axis=0), count, g.Add(count, wanted_count))
