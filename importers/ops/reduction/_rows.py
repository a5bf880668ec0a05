"""Defines the field, the numpy reference, cases and checks that all reductions of rows share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Operand, Value
from trtsmith.importers.opdef import Field, Fields, Kind, Refusal, Shapes, Work
from trtsmith.importers.ops._shared import faults_of_int32, put_some


class Rows:
    """Rows [E, ...], to be reduced. count: E, int64[1]. numbers: 0 to E - 1."""

    def __init__(self, g: Builder, source: Operand) -> None:
        self.g = g
        sizes = g.Shape(source)
        self.count, self.other_sizes = sizes[:1], sizes[1:]
        self._columns = g.ReduceProd(g.Concat([1], self.other_sizes, axis=0), keepdims=1)
        self._table = g.Reshape(source, [self.count, self._columns])
        self.numbers = g.arange(self.count)

    def wide_shape(self, segments: Value) -> Value:
        """Returns the shape [S, 1, ...], which spreads one number over each segment."""
        ones = self.g.Where(self.g.Cast(self.other_sizes, to="bool"), [1], [1])
        return self.g.Concat(segments, ones, axis=0)

    def reduce(
        self, reduction: int, counts: Value, starts: Value, order: Value, segments: Value, *, origin: bool
    ) -> tuple[Value, ...]:
        """Computes the reduced rows [S, ...], zero for segments without a row, and with `origin` also that output.

        counts, starts: of the segments' rows, int64 [S]. order: of the rows, int64 [E].
        """
        g = self.g
        most = g.ReduceMax(g.Concat(counts, [1], axis=0), keepdims=0)
        offsets = g.Range(0, most, 1)
        column = g.vector(segments, 1)
        counts_column = g.Reshape(counts, column)
        place = g.Reshape(starts, column) + offsets
        place = g.Where(offsets < counts_column, place, g.Expand(self.count, column))
        member = g.Gather(g.Concat(order, self.count, axis=0), place, axis=0)  # [S, most]; E for none
        row_shape = g.vector(1, self._columns)
        has_rows = g.Cast(counts_column, to="bool")
        extreme = reduction in (MAX, MIN)
        if extreme:
            signed = -self._table if reduction == MIN else self._table
            least = g.Mul(-3.4e38, 10.0)
            known = g.Where(g.IsNaN(signed), least, signed)
            members = g.Gather(g.Concat(known, g.Expand(least, row_shape), axis=0), member, axis=0)
            reduced = g.ReduceMax(members, axes=[1], keepdims=0)
            reduced = -reduced if reduction == MIN else reduced
        else:
            table = g.Concat(self._table, g.Expand(0.0, row_shape), axis=0)
            members = g.Gather(table, member, axis=0)
            reduced = g.ReduceSum(members, axes=[1], keepdims=0)
            if reduction == MEAN:
                some = g.Where(g.Cast(counts, to="bool"), counts, [1])
                reduced = reduced / g.Reshape(g.Cast(some, to="float32"), column)
        output_shape = g.Concat(segments, self.other_sizes, axis=0)
        output = g.Reshape(g.Where(has_rows, reduced, 0.0), output_shape)
        if not origin:
            return (output,)
        if not extreme:
            return output, g.Reshape(counts, self.wide_shape(segments))
        origins = g.GatherElements(member, g.ArgMax(members, axis=1, keepdims=0), axis=1)
        return output, g.Reshape(g.Where(has_rows, origins, self.count), output_shape)


SUM, MEAN, MAX, MIN = range(4)
NAMES = {"sum": SUM, "add": SUM, "mean": MEAN, "max": MAX, "min": MIN}
"""As torch_scatter calls them."""

REDUCTION = Field("reduction", Kind.INT, "0: sum, 1: mean, 2: largest, 3: smallest", allowed=(0, 1, 2, 3))

NAN_RULE = (
    "A NaN is passed over by the largest and the smallest: it counts as -infinity there, or as infinity. "
    "Sums are float32, rows are added in their order, and the result is the same in every run."
)


def rows_work(_fields: Fields, shapes: Shapes) -> Work:
    """Counts an addition or a comparison for each element of the source."""
    return Work(flops=math.prod(shapes["source"]))


def check_rows(shapes: Any) -> list[str]:
    if shapes.get("source") == ():
        return ["source has no dimensions"]
    return faults_of_int32(shapes, ("source", 0))


def unknown_reduction(attribute: str, value: Any) -> Refusal | None:
    """Refuses other reductions, such as torch_scatter's multiplication."""
    if value in NAMES:
        return None
    return Refusal(
        f"attribute {attribute!r} is {value!r}",
        "one of 'sum', 'mean', 'max' and 'min'",
        "export the node with one of them, or write products as standard operators",
    )


def reduce_rows(rows: np.ndarray, reduction: int) -> tuple[np.ndarray, np.ndarray]:
    """Reduces rows [n, ...] to one in float64, and tells which row each number comes from. n is at least 1."""
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
    """Makes rows that have equal numbers among the largest and the smallest."""
    made = rng.normal(size=(rows, *columns))
    made[made > 1] = 1.5
    made[made < -1.5] = -1.75
    return made


def spoil(rng: np.random.Generator, source: np.ndarray) -> None:
    """Puts NaN in some places and minus infinity in others, so that the largest number of several rows stays finite."""
    put_some(rng, 0.2, source, [np.nan, -np.inf])
