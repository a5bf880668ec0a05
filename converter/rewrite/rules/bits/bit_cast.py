"""Rewrites BitCast as arithmetic: TensorRT has no way to read a float's bits as an integer, nor the reverse.

Between integers of a width it is a Cast, which wraps. A float's sign, exponent and fraction are found by comparison
with powers of two and put together as a number, or the other way round.

Writes the bits of IEEE 754 numbers, and the numbers from their bits, by arithmetic in float32.

Every step is exact: multiplications by powers of two that neither overflow nor round, and integers below 2^24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS, LegalInteger
from trtsmith.importers.dtypes import BITS, NUMBERS

_SINGLE = 23
"""Bits of float32's fraction."""

_STEPS = (64, 32, 16, 8, 4, 2, 1)


@dataclass(frozen=True)
class FloatFormat:
    """A float type, as the number of its exponent bits and of its fraction bits."""

    exponent: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinite(self) -> int:
        """The stored exponent of infinities and NaNs."""
        return (1 << self.exponent) - 1


FORMATS: Mapping[str, FloatFormat] = {
    "float16": FloatFormat(5, 10),
    "bfloat16": FloatFormat(8, 7),
    "float32": FloatFormat(8, 23),
    "float64": FloatFormat(11, 52),
}


def bits_of(w: Writer, form: FloatFormat, legal: LegalInteger, value: Value) -> Value:
    """Returns the bits of float32 `value` in the given format, as an integer of the legal type. The value must be exact in
    the format.

    The size is brought into [1, 2) by powers of two, which counts the exponent. Below the format's least normal number
    it is a multiple of the least one instead.
    """
    zero = w.constant(legal.constant(0))
    size = part = w.Abs(value)
    exponent = zero
    for _ in range(2):
        low = w.Less(part, 1.0)
        less = w.Where(low, legal.constant(-100), zero)
        part = w.Where(low, w.Mul(part, 2.0**100), part)
        exponent = less if exponent is zero else w.Add(exponent, less)
    for step in _STEPS:
        big = w.GreaterOrEqual(part, 2.0**step)
        part = w.Where(big, w.Mul(part, 2.0**-step), part)
        exponent = w.Add(exponent, w.Where(big, legal.constant(step), zero))
    whole = w.Cast(w.Mul(part, 2.0**_SINGLE), to=legal.dtype)
    narrowing = legal.constant(1 << abs(_SINGLE - form.fraction))
    fraction = w.Sub(whole, legal.constant(1 << _SINGLE))
    fraction = w.write("Div" if form.fraction <= _SINGLE else "Mul", fraction, narrowing)
    stored = w.Add(exponent, legal.constant(form.bias))
    normal = w.Add(w.Mul(stored, legal.constant(1 << form.fraction)), fraction)
    to_unit = form.bias - 1 + form.fraction  # the least number is 2^-to_unit
    if form.exponent < 11:
        below = w.Less(stored, legal.constant(1))
        factors = 2.0 ** min(to_unit, 100), 2.0 ** (to_unit - min(to_unit, 100))
    else:  # float32 has no denormals of float64, whose exponents go further: zero is all that is below
        below, factors = w.Equal(size, 0.0), (1.0, 1.0)
    multiple = w.Mul(w.Mul(size, factors[0]), factors[1])
    denormal = w.Cast(w.Where(below, multiple, 0.0), to=legal.dtype)
    infinity, nan = form.infinite << form.fraction, (2 * form.infinite + 1) << (form.fraction - 1)
    unsigned = w.Where(below, denormal, normal)
    unsigned = w.Where(w.Equal(size, np.inf), legal.constant(infinity), unsigned)
    unsigned = w.Where(w.IsNaN(value), legal.constant(nan), unsigned)
    less = w.Less(value, 0.0)
    negative = w.Or(less, w.Less(w.Reciprocal(value), 0.0))
    return w.Add(unsigned, w.Where(negative, _sign_bit(form, legal), zero))


def number_of(w: Writer, form: FloatFormat, legal: LegalInteger, bits: Value) -> Value:
    """Returns the float32 value of the bits: a significand in [1, 2) times a power of two. The bits are an integer of the
    legal type.
    """
    zero, unit = w.constant(legal.constant(0)), w.constant(legal.constant(1 << form.fraction))
    sign_bit = w.constant(_sign_bit(form, legal))
    exponents = np.maximum(np.arange(form.infinite + 1), 1) - float(form.bias)
    with np.errstate(over="ignore", under="ignore"):
        powers = np.exp2(exponents).astype(np.float32)
    powers[-1] = 1  # not used: its product would warn
    negative = w.Less(bits, zero) if legal.signed else w.GreaterOrEqual(bits, sign_bit)
    unsigned = w.Sub(bits, w.Where(negative, sign_bit, zero))
    stored, fraction = w.Div(unsigned, unit), w.Mod(unsigned, unit)
    whole = w.Add(fraction, w.Where(w.Greater(stored, zero), unit, zero))
    significand = w.Mul(w.Cast(whole, to="float32"), 2.0**-form.fraction)
    size = w.Mul(significand, w.Gather(powers, stored, axis=0))
    nan, infinity = np.nan, np.inf
    special = w.Where(w.Greater(fraction, zero), nan, infinity)
    absolute = w.Where(w.Equal(stored, legal.constant(form.infinite)), special, size)
    return w.Where(negative, w.Neg(absolute), absolute)


def _sign_bit(form: FloatFormat, legal: LegalInteger) -> np.ndarray:
    weight = 1 << (form.exponent + form.fraction)
    return legal.constant(-weight if legal.signed else weight)


_NAN = "a NaN loses its sign and its payload, which arithmetic does not see"
_DOUBLE = "the bits of a float64 come from the float32 value that TensorRT computes"


@node_rule("bit-cast", "BitCast")
def bit_cast_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites BitCast as arithmetic."""
    source, number = node.dtype(0) or "", int(node.attributes.get("to", 0))
    target = next((name for name, known in NUMBERS.items() if known == number), "")
    integers = {"bool", *LEGAL_INTEGERS}
    widths = BITS.get(NUMBERS.get(source, 0)), BITS.get(number)
    if None not in widths and widths[0] != widths[1]:
        return Refusal(
            f"BitCast from {source} to {target}, of {widths[0]} and {widths[1]} bits",
            "types with the same number of bits",
            "correct the attribute 'to' where the model is exported",
        )
    w = Writer(node)
    if source == target or (source in integers and target in integers):
        return Replacement(w.finish(w.Cast(w.x[0], to=number)), "a Cast")
    if source in FORMATS and target in LEGAL_INTEGERS:
        bits = bits_of(w, FORMATS[source], LEGAL_INTEGERS[target], w.Cast(w.x[0], to="float32"))
        result = w.Cast(bits, to=target)
    elif source in LEGAL_INTEGERS and target in FORMATS:
        legal = LEGAL_INTEGERS[source]
        result = w.Cast(number_of(w, FORMATS[target], legal, w.Cast(w.x[0], to=legal.dtype)), to=target)
    else:
        return Refusal(
            f"BitCast from {source or 'an unknown type'} to {target or f'element type {number}'}",
            "between integers, or between an integer and float16, bfloat16, float32 or float64",
            "write two BitCasts, with an integer in between",
        )
    return Replacement(
        w.finish(result),
        "sign, exponent and fraction by arithmetic",
        numerics=_DOUBLE if "float64" in (source, target) else _NAN,
    )
