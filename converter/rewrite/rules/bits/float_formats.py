"""Writes the bits of IEEE 754 numbers, and the numbers from their bits, by arithmetic in float32.

Every step is exact: multiplications by powers of two that neither overflow nor round, and integers below 2^24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.bits.legal_integers import LegalInteger

_SINGLE = 23
"""Bits of float32's fraction."""

_STEPS = (64, 32, 16, 8, 4, 2, 1)


@dataclass(frozen=True)
class FloatFormat:
    """A float type: the bits of its exponent and of its fraction."""

    exponent: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinite(self) -> int:
        """The exponent of infinities and NaNs, as stored."""
        return (1 << self.exponent) - 1


FORMATS: Mapping[str, FloatFormat] = {
    "float16": FloatFormat(5, 10),
    "bfloat16": FloatFormat(8, 7),
    "float32": FloatFormat(8, 23),
    "float64": FloatFormat(11, 52),
}


def bits_of(w: Writer, form: FloatFormat, legal: LegalInteger, value: str) -> str:
    """The bits, an integer of the legal type, of the float32 `value`, which a number of the format became.

    The size is brought into [1, 2) by powers of two, which counts the exponent. Below the format's least normal number
    it is a multiple of the least one instead.
    """
    zero, zero_f = w.const(legal.constant(0)), w.number(0, "float32")
    size = part = w.do("Abs", value)
    exponent = ""
    for _ in range(2):
        low = w.do("Less", part, w.number(1, "float32"))
        less = w.do("Where", low, legal.constant(-100), zero)
        part = w.do("Where", low, w.do("Mul", part, w.number(2.0**100, "float32")), part)
        exponent = w.do("Add", exponent, less) if exponent else less
    for step in _STEPS:
        big = w.do("GreaterOrEqual", part, w.number(2.0**step, "float32"))
        part = w.do("Where", big, w.do("Mul", part, w.number(2.0**-step, "float32")), part)
        exponent = w.do("Add", exponent, w.do("Where", big, legal.constant(step), zero))
    whole = w.cast(w.do("Mul", part, w.number(2.0**_SINGLE, "float32")), legal.dtype)
    narrowing = legal.constant(1 << abs(_SINGLE - form.fraction))
    fraction = w.do("Sub", whole, legal.constant(1 << _SINGLE))
    fraction = w.do("Div" if form.fraction <= _SINGLE else "Mul", fraction, narrowing)
    stored = w.do("Add", exponent, legal.constant(form.bias))
    normal = w.do("Add", w.do("Mul", stored, legal.constant(1 << form.fraction)), fraction)
    to_unit = form.bias - 1 + form.fraction  # the least number is 2^-to_unit
    if form.exponent < 11:
        below = w.do("Less", stored, legal.constant(1))
        factors = 2.0 ** min(to_unit, 100), 2.0 ** (to_unit - min(to_unit, 100))
    else:  # float32 has no denormals of float64, whose exponents go further: zero is all that is below
        below, factors = w.do("Equal", size, zero_f), (1.0, 1.0)
    multiple = w.do(
        "Mul", w.do("Mul", size, w.number(factors[0], "float32")), w.number(factors[1], "float32")
    )
    denormal = w.cast(w.do("Where", below, multiple, zero_f), legal.dtype)
    infinity, nan = form.infinite << form.fraction, (2 * form.infinite + 1) << (form.fraction - 1)
    unsigned = w.do("Where", below, denormal, normal)
    is_infinite = w.do("Equal", size, w.number(np.inf, "float32"))
    unsigned = w.do("Where", is_infinite, legal.constant(infinity), unsigned)
    unsigned = w.do("Where", w.do("IsNaN", value), legal.constant(nan), unsigned)
    less = w.do("Less", value, zero_f)
    negative = w.do("Or", less, w.do("Less", w.do("Reciprocal", value), zero_f))
    return w.do("Add", unsigned, w.do("Where", negative, _sign_bit(form, legal), zero))


def number_of(w: Writer, form: FloatFormat, legal: LegalInteger, bits: str) -> str:
    """A float32 from its bits, an integer of the legal type: significand in [1, 2), times a power of two."""
    zero, unit = w.const(legal.constant(0)), w.const(legal.constant(1 << form.fraction))
    sign_bit = w.const(_sign_bit(form, legal))
    exponents = np.maximum(np.arange(form.infinite + 1), 1) - float(form.bias)
    with np.errstate(over="ignore", under="ignore"):
        powers = np.exp2(exponents).astype(np.float32)
    powers[-1] = 1  # not used: its product would warn
    negative = w.do("Less", bits, zero) if legal.signed else w.do("GreaterOrEqual", bits, sign_bit)
    unsigned = w.do("Sub", bits, w.do("Where", negative, sign_bit, zero))
    stored, fraction = w.do("Div", unsigned, unit), w.do("Mod", unsigned, unit)
    whole = w.do("Add", fraction, w.do("Where", w.do("Greater", stored, zero), unit, zero))
    significand = w.do("Mul", w.cast(whole, "float32"), w.number(2.0**-form.fraction, "float32"))
    size = w.do("Mul", significand, w.do("Gather", powers, stored, axis=0))
    nan, infinity = w.number(np.nan, "float32"), w.number(np.inf, "float32")
    special = w.do("Where", w.do("Greater", fraction, zero), nan, infinity)
    absolute = w.do("Where", w.do("Equal", stored, legal.constant(form.infinite)), special, size)
    return w.do("Where", negative, w.do("Neg", absolute), absolute)


def _sign_bit(form: FloatFormat, legal: LegalInteger) -> np.ndarray:
    weight = 1 << (form.exponent + form.fraction)
    return legal.constant(-weight if legal.signed else weight)
