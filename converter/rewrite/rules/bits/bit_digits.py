"""Writes the bits that two integers have in common: by digits, or by a remainder where one is a mask."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.bits.legal_integers import LegalInteger

Signed = tuple[Value, Value | None]
"""A magnitude, and whether the number is negative, as LegalInteger.magnitude gives them."""

_RADIX = 16
"""Digits that are looked up in pairs: 256 products of digits; 2 would need no table, but four times the memory."""


def modulus(mask: np.ndarray | None, legal: LegalInteger, high: bool) -> np.ndarray | None:
    """2^k for every element of a mask of the k lowest bits, or of all others if `high`; None if it is no such mask."""
    if mask is None:
        return None
    ones = (1 << legal.width) - 1
    highest = int(np.iinfo(legal.dtype).max)
    low = [(int(n) & ones) ^ (ones if high else 0) for n in mask.reshape(-1)]
    if any(n >= highest or n & (n + 1) for n in low):
        return None
    return legal.constant([n + 1 for n in low]).reshape(mask.shape)


def masked(w: Writer, value: Value, magnitude: Value, power: np.ndarray, high: bool) -> Value:
    """x modulo 2^k has the k lowest bits. The lowest value of the type is a multiple of 2^k: the magnitude decides."""
    low = w.Mod(magnitude, power)
    return w.Sub(value, low) if high else low


def digitwise(w: Writer, legal: LegalInteger, a: Signed, b: Signed) -> Value:
    """Digits along new last axes, the pairs of them looked up, and the digits of the result weighed and added.

    Words of 32 bits are added each for itself: onnxruntime sums int64 through
    doubles, which are exact up to 2^53.
    """
    long = legal.magnitude_bits > 32
    places = [_RADIX**k for k in range(-(-legal.magnitude_bits // 4))]
    table = legal.constant((np.arange(_RADIX)[:, None] & np.arange(_RADIX)).reshape(-1))

    def digits(magnitude: Value) -> Value:
        column = w.unsqueeze(magnitude, [-2, -1] if long else [-1])
        over = w.Div(column, legal.constant([places[:8], places[8:]] if long else places))
        return w.Mod(over, legal.constant(_RADIX))

    pair = w.Add(w.Mul(digits(a[0]), legal.constant(_RADIX)), digits(b[0]))
    weighed = w.Mul(w.Gather(table, pair, axis=0), legal.constant(places[:8]))
    both = w.reduce("ReduceSum", weighed, [-1], keepdims=False)
    if long:
        low, high = (w.Gather(both, i, axis=-1) for i in (0, 1))
        both = w.Add(w.Mul(high, 1 << 32), low)
    if not legal.signed:
        return both
    return w.Add(both, w.Where(w.And(a[1], b[1]), legal.lowest, legal.constant(0)))
