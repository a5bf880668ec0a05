"""Multiplies integers exactly on floating-point hardware.

float32 has all integers up to 2^24. A sum of products is exact, whatever the order of its terms, if the magnitudes of
the terms add up to no more. So a reduction is cut into parts that are that short, and the parts are added in int32. For
constant weights the bound is what their magnitudes add up to; else the length of the reduction times the largest
product. It holds in TensorRT's TF32, too: operands of 9 bits fit into its 11, and it adds in float32.

Where the reduction is too long for a few parts, or of unknown length, operands are split into 16 * high + low, and the
products of the halves are added in int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.operands import IntegerOperand

EXACT = 2**24
EXACT_SUM = "of a sum of integers that float32 has exactly"
"""The doc_string of such a Cast to int32: a Cast back to a float type may read the sum itself."""
MOST_PARTS = 8
"""Parts of a reduction before its second operand is split: two products of the whole are cheaper then."""

Slice = tuple[int, int]


@dataclass(frozen=True)
class Sum:
    """A sum of products: float32 with |sum| <= bound <= 2^24, or int32 with bound None.

    numerics: a sentence for Replacement, if it is exact under a condition only.
    """

    value: Value
    bound: int | None
    numerics: str = ""

    def as_int32(self, w: Writer) -> Value:
        if self.bound is None:
            return self.value
        result = w.Cast(self.value, to="int32")
        w.nodes[-1].doc_string = EXACT_SUM
        return result


@dataclass(frozen=True)
class ProductSlicing:
    """How a product (MatMul, Conv) is cut into slices that float32 sums exactly.

    length:     of the reduction in units that can be cut apart; None if it is not known.
    terms:      products in each unit.
    magnitudes: for the constant second operand, its magnitudes added up in each unit: [outputs, length].
    left, right: write the slice of an operand: (w, value, slice).
    product:    writes one product: (w, left, right).
    """

    length: int | None
    terms: int
    magnitudes: Callable[[np.ndarray], np.ndarray]
    left: Callable[[Writer, Value, Slice], Value]
    right: Callable[[Writer, Value, Slice], Value]
    product: Callable[[Writer, Value, Value], Value]
    cut: Callable[[np.ndarray, Slice], np.ndarray]


def exact_sum(w: Writer, a: IntegerOperand, b: IntegerOperand, reduction: ProductSlicing) -> Sum | None:
    """The exact product of a and b; None if no slicing makes it exact."""
    parts = _parts(a, b, reduction)
    if parts is not None and len(parts) <= MOST_PARTS:
        return _added(w, [(1, a, b, parts)], reduction, a, b)
    low_b, high_b = _halves(w, b)
    if reduction.length is not None:
        halves = [(1, a, low_b), (16, a, high_b)]
    else:
        low_a, high_a = _halves(w, a)
        halves = [(1, low_a, low_b), (16, low_a, high_b), (16, high_a, low_b), (256, high_a, high_b)]
    products = []
    for weight, x, y in halves:
        cut = _parts(x, y, reduction)
        if cut is None:
            return None
        products.append((weight, x, y, cut))
    return _added(w, products, reduction, a, b)


def _parts(a: IntegerOperand, b: IntegerOperand, reduction: ProductSlicing) -> list[Slice] | None:
    """Slices of the reduction with exact sums; None if a single unit is too large."""
    if reduction.length is None:
        return [(0, 0)] if a.bound * b.bound <= 256 else None  # of halves, exact up to 2^16 terms
    if b.array is None:
        most = EXACT // max(a.bound * b.bound * reduction.terms, 1)
        if not most:
            return None
        return [(i, min(i + most, reduction.length)) for i in range(0, max(reduction.length, 1), most)]
    sums = reduction.magnitudes(np.abs(b.array)) * a.bound
    if not sums.shape[0]:
        return [(0, reduction.length)]
    if sums.max(initial=0) > EXACT:
        return None
    parts: list[Slice] = []
    start = 0
    while start < sums.shape[1] and _most(sums[:, start:]) > EXACT:
        stop = _longest(sums, start)
        parts.append((start, stop))
        start = stop
    return [*parts, (start, reduction.length)]


def _most(sums: np.ndarray) -> int:
    return int(sums.sum(1).max(initial=0))


def _longest(sums: np.ndarray, start: int) -> int:
    """The end of the longest exact slice that begins at `start`, if the whole rest is not exact."""
    low, high = start + 1, sums.shape[1] - 1  # a single unit is exact
    done = np.zeros(sums.shape[0], np.int64)  # of start to low
    done += sums[:, start]
    while low < high:
        middle = (low + high + 1) // 2
        more = done + sums[:, low:middle].sum(1)
        if more.max() <= EXACT:
            low, done = middle, more
        else:
            high = middle - 1
    return low


def _bound(a: IntegerOperand, b: IntegerOperand, reduction: ProductSlicing) -> int:
    """An upper bound of the summed magnitudes of all products."""
    if b.array is None:
        return a.bound * b.bound * reduction.terms * (reduction.length or 2**16)
    return int(reduction.magnitudes(np.abs(b.array)).sum(1).max(initial=0)) * a.bound


def _halves(w: Writer, x: IntegerOperand) -> tuple[IntegerOperand, IntegerOperand]:
    """low and high with x = 16 * high + low and 0 <= low < 16."""
    high_bound = x.bound // 16 + 1
    if x.array is not None:
        return IntegerOperand(None, 15, x.array & 15), IntegerOperand(None, high_bound, x.array >> 4)
    whole = x.written(w)
    high = w.Floor(w.Div(whole, 16.0))
    return IntegerOperand(w.Sub(whole, w.Mul(high, 16.0)), 15), IntegerOperand(high, high_bound)


def _added(
    w: Writer,
    products: Sequence[tuple[int, IntegerOperand, IntegerOperand, list[Slice]]],
    reduction: ProductSlicing,
    a: IntegerOperand,
    b: IntegerOperand,
) -> Sum:
    whole = [(0, reduction.length or 0)]
    if len(products) == 1 and len(products[0][3]) == 1:
        return Sum(reduction.product(w, a.written(w), b.written(w)), _bound(a, b, reduction))
    total = None
    for weight, x, y, parts in products:
        for part in parts:
            cut = parts != whole and reduction.length is not None
            if y.array is not None:
                values = y.array if parts == whole else reduction.cut(y.array, part)
                right = w.constant(values.astype(np.float32))
            else:
                right = reduction.right(w, y.written(w), part) if cut else y.written(w)
            left = reduction.left(w, x.written(w), part) if cut else x.written(w)
            term = w.Cast(reduction.product(w, left, right), to="int32")
            if weight > 1:
                term = w.Mul(term, w.number(weight, "int32"))
            total = term if total is None else w.Add(total, term)
    limit = "the sums are exact for up to 65,536 terms; their number is known only at run time"
    assert total is not None  # there are products
    return Sum(total, None, "" if reduction.length is not None else limit)
