"""The bits that two integers have in common, as statements: by digits, or by a remainder where one is a mask.

They define `both` from `a` and `b`, cast to a carrier and split into magnitude and sign (integer_carriers.py).
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.opset_forms import reduce, unsqueeze
from trtsmith.converter.rewrite.rules.bits.legal_integers import Carrier

_RADIX = 16
"""Digits that are looked up in pairs: 256 products of digits; 2 would need no table, but four times the memory."""


def digit_tables(carrier: Carrier) -> dict[str, np.ndarray]:
    """The constants that the statements read."""
    places = [_RADIX**k for k in range(-(-carrier.magnitude_bits // 4))]
    pairs = np.arange(_RADIX)[:, None] & np.arange(_RADIX)
    return {
        "zero": carrier.constant(0),
        "one": np.array(1),
        "lowest": carrier.lowest,
        "radix": carrier.constant(_RADIX),
        "places": carrier.constant([places[:8], places[8:]] if len(places) > 8 else places),
        "weights": carrier.constant(places[:8]),
        "word": np.array(1 << 32),
        "table": carrier.constant(pairs.reshape(-1)),
    }


def modulus(mask: np.ndarray | None, carrier: Carrier, high: bool) -> np.ndarray | None:
    """2^k for every element of a mask of the k lowest bits, or of all others if `high`; None if it is no such mask."""
    if mask is None:
        return None
    ones = (1 << carrier.width) - 1
    highest = int(np.iinfo(carrier.dtype).max)
    low = [(int(n) & ones) ^ (ones if high else 0) for n in mask.reshape(-1)]
    if any(n >= highest or n & (n + 1) for n in low):
        return None
    return carrier.constant([n + 1 for n in low]).reshape(mask.shape)


def masked(value: str, high: bool) -> str:
    """x modulo 2^k has the k lowest bits. The lowest value of the type is a multiple of 2^k: the magnitude decides."""
    if high:
        return f"""
            low_bits = Mod ({value}_m, modulus)
            both = Sub ({value}, low_bits)
        """
    return f"both = Mod ({value}_m, modulus)"


def digitwise(carrier: Carrier, opset: int) -> str:
    """Digits along new last axes, the pairs of them looked up, and the digits of the result weighed and added.

    Words of 32 bits are added each for itself: onnxruntime sums int64 through doubles, which are exact up to 2^53.
    """
    long = carrier.magnitude_bits > 32

    def digits(name: str) -> str:
        return f"""
            {unsqueeze(f"{name}_1", f"{name}_m", [-2, -1] if long else [-1], opset)}
            {name}_over = Div ({name}_1, places)
            {name}_d = Mod ({name}_over, radix)
        """

    text = f"""
        {digits("a")}
        {digits("b")}
        scaled = Mul (a_d, radix)
        pair = Add (scaled, b_d)
        common = Gather <axis = 0> (table, pair)
        weighed = Mul (common, weights)
        {reduce("ReduceSum", "words" if long else "both_m", "weighed", [-1], opset, keepdims=False)}
    """
    if not long:
        return text + _with_sign(carrier)
    return f"""
        {text}
        low = Gather <axis = -1> (words, zero)
        high = Gather <axis = -1> (words, one)
        above = Mul (high, word)
        both_m = Add (above, low)
        {_with_sign(carrier)}
    """


def _with_sign(carrier: Carrier) -> str:
    if not carrier.signed:
        return "both = Identity (both_m)"
    return """
        both_s = And (a_s, b_s)
        both_sign = Where (both_s, lowest, zero)
        both = Add (both_m, both_sign)
    """
