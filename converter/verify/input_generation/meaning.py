"""Describes suitable values for one input, as plain data and as a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ValueKind(IntEnum):
    """Kinds of values. If several nodes read an input, the larger kind holds: it is the narrower one."""

    PIXELS = 1  # numbers of an image: low to high
    PICTURES = 2  # cut-outs of photographs: low to high
    RANGE = 3  # numbers from low to high
    APART_FROM_ZERO = 4  # magnitudes from low to high, of both signs
    INVERTIBLE = 5  # square matrices
    WEIGHTS = 6  # from 0 to 1, with the sum 1 over the last two dimensions
    ADDED_MASK = 7  # 0 where a key counts, -10000 where it does not
    MASK = 8  # 0 and 1; each row has an element that counts
    CENTRES = 9  # boxes (x, y, width, height)
    CORNERS = 10  # boxes (x1, y1, x2, y2), or y before x
    INDEX = 11  # whole numbers from low to high, or of each coordinate from 0 to its bound
    LEVEL_SIZES = 12
    LEVEL_STARTS = 13


@dataclass(frozen=True)
class InputValues:
    """The values that suit an input.

    low, high: smallest and largest value, both included.
    bounds:    of INDEX, for tuples of indices: how many there are along each coordinate; of level sizes: (rows,).
    distinct:  of INDEX: the axis along which no index may come twice; -1 for whole tuples; None where it may.
    counts:    of MASK: the value that means "this element counts".
    because:   what reads it, as "NonMaxSuppression 'nms' reads boxes".
    """

    kind: ValueKind
    because: str
    low: float = 0.0
    high: float = 1.0
    bounds: tuple[int, ...] = ()
    distinct: int | None = None
    counts: int = 1

    def __str__(self) -> str:
        return f"{self.values()}, because {self.because}"

    def values(self) -> str:
        """Returns the values in words."""
        low, high = f"{self.low:g}", f"{self.high:g}"
        if self.kind is ValueKind.INDEX and self.bounds:
            return f"indices below {list(self.bounds)}" + (
                ", no tuple twice" if self.distinct is not None else ""
            )
        once = f", none twice along axis {self.distinct}" if self.distinct is not None else ""
        return {
            ValueKind.PIXELS: f"pixels from {low} to {high}",
            ValueKind.PICTURES: f"cut-outs of photographs (a cat, a cup, a rocket), {low} to {high}",
            ValueKind.RANGE: f"{low} to {high}",
            ValueKind.APART_FROM_ZERO: f"{low} to {high} of both signs",
            ValueKind.INVERTIBLE: "matrices near a multiple of the identity",
            ValueKind.WEIGHTS: "0 to 1, sum 1 over the last two dimensions",
            ValueKind.ADDED_MASK: "0 for the first elements of each row, -10000 for the rest",
            ValueKind.MASK: f"{self.counts} for the first elements of each row, {1 - self.counts} for the rest",
            ValueKind.CENTRES: f"boxes inside 0 to {high}, as centre and size",
            ValueKind.CORNERS: f"boxes with 0 <= x1 <= x2 <= {high}, and y alike",
            ValueKind.INDEX: f"whole numbers from {low} to {high}{once}",
            ValueKind.LEVEL_SIZES: f"heights and widths of levels that share {self.bounds} rows",
            ValueKind.LEVEL_STARTS: f"first rows of levels that share {self.bounds} rows",
        }[self.kind]


def narrower(one: InputValues | None, other: InputValues) -> InputValues:
    """Returns values that suit two readers: the intersection of ranges."""
    if one is None or other.kind > one.kind:
        return other
    if (
        other.kind < one.kind
        or one.kind not in (ValueKind.RANGE, ValueKind.INDEX)
        or one.bounds
        or other.bounds
    ):
        return one
    low, high = max(one.low, other.low), min(one.high, other.high)
    if low > high:
        return one
    because = one.because if (low, high) == (one.low, one.high) else other.because
    distinct = one.distinct if one.distinct is not None else other.distinct
    return InputValues(one.kind, because, low, high, distinct=distinct)
