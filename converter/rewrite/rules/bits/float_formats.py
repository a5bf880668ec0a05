"""The bits of IEEE 754 numbers by arithmetic in float32: statements that make a float's bits, and a float from bits.

Every step is exact: multiplications by powers of two that neither overflow nor round, and integers below 2^24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.rules.bits.legal_integers import Carrier

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


def bits_of(form: FloatFormat, carrier: Carrier) -> tuple[str, dict[str, np.ndarray]]:
    """`bits`, an integer of the carrier, from the float32 `value`, which a number of the format became.

    The size is brought into [1, 2) by powers of two, which counts the exponent. Below the format's least normal number
    it is a multiple of the least one instead.
    """
    kind = carrier.onnx_type
    lines = [
        "size = Abs (value)",
        "low_0 = Less (size, one)",
        "lifted_0 = Mul (size, lift)",
        "up_0 = Where (low_0, lifted_0, size)",
        "e_0 = Where (low_0, minus_lift, zero)",
        "low_1 = Less (up_0, one)",
        "lifted_1 = Mul (up_0, lift)",
        "up_1 = Where (low_1, lifted_1, up_0)",
        "less_1 = Where (low_1, minus_lift, zero)",
        "e_1 = Add (e_0, less_1)",
    ]
    constants = {"lift": _single(2.0**100), "minus_lift": carrier.constant(-100)}
    part, exponent = "up_1", "e_1"
    for step in _STEPS:
        lines += [
            f"big_{step} = GreaterOrEqual ({part}, power_{step})",
            f"down_{step} = Mul ({part}, inverse_{step})",
            f"part_{step} = Where (big_{step}, down_{step}, {part})",
            f"more_{step} = Where (big_{step}, count_{step}, zero)",
            f"exponent_{step} = Add ({exponent}, more_{step})",
        ]
        part, exponent = f"part_{step}", f"exponent_{step}"
        constants |= {f"power_{step}": _single(2.0**step), f"inverse_{step}": _single(2.0**-step)}
        constants[f"count_{step}"] = carrier.constant(step)
    lines += [
        f"scaled = Mul ({part}, single_units)",
        f"whole = Cast <to = {kind}> (scaled)",
        "fraction_24 = Sub (whole, hidden)",
        f"fraction = {'Div' if form.fraction <= _SINGLE else 'Mul'} (fraction_24, narrowing)",
        f"stored = Add ({exponent}, bias)",
        "placed = Mul (stored, exponent_unit)",
        "normal = Add (placed, fraction)",
        # float32 has no denormals of float64, whose exponents go further: zero is all that is below.
        "below = Less (stored, one_i)" if form.exponent < 11 else "below = Equal (size, zero_f)",
        "multiple_0 = Mul (size, denormal_0)",
        "multiple_1 = Mul (multiple_0, denormal_1)",
        "finite_multiple = Where (below, multiple_1, zero_f)",
        f"denormal = Cast <to = {kind}> (finite_multiple)",
        "is_infinite = Equal (size, infinity)",
        "is_nan = IsNaN (value)",
        "regular = Where (below, denormal, normal)",
        "with_infinity = Where (is_infinite, infinite_bits, regular)",
        "unsigned = Where (is_nan, nan_bits, with_infinity)",
        "less = Less (value, zero_f)",
        "reciprocal = Reciprocal (value)",
        "less_reciprocal = Less (reciprocal, zero_f)",
        "negative = Or (less, less_reciprocal)",
        "sign = Where (negative, sign_bit, zero)",
        "bits = Add (unsigned, sign)",
    ]
    to_unit = form.bias - 1 + form.fraction  # the least number is 2^-to_unit
    first = min(to_unit, 100) if form.exponent < 11 else 0
    infinite_bits = form.infinite << form.fraction
    sign_bit = 1 << (form.exponent + form.fraction)
    return "\n".join(lines), constants | {
        "one": _single(1),
        "zero_f": _single(0),
        "infinity": _single(np.inf),
        "single_units": _single(2.0**_SINGLE),
        "denormal_0": _single(2.0**first),
        "denormal_1": _single(2.0 ** (to_unit - first) if form.exponent < 11 else 1),
        "zero": carrier.constant(0),
        "one_i": carrier.constant(1),
        "hidden": carrier.constant(1 << _SINGLE),
        "narrowing": carrier.constant(1 << abs(_SINGLE - form.fraction)),
        "bias": carrier.constant(form.bias),
        "exponent_unit": carrier.constant(1 << form.fraction),
        "infinite_bits": carrier.constant(infinite_bits),
        "nan_bits": carrier.constant(infinite_bits + (1 << (form.fraction - 1))),
        "sign_bit": carrier.constant(-sign_bit if carrier.signed else sign_bit),
    }


def number_of(form: FloatFormat, carrier: Carrier) -> tuple[str, dict[str, np.ndarray]]:
    """`value`, a float32, from `bits`, an integer of the carrier: significand in [1, 2), times a power of two."""
    sign = "negative = Less (bits, zero)" if carrier.signed else "negative = GreaterOrEqual (bits, sign_bit)"
    text = f"""
        {sign}
        sign = Where (negative, sign_bit, zero)
        unsigned = Sub (bits, sign)
        stored = Div (unsigned, exponent_unit)
        fraction = Mod (unsigned, exponent_unit)
        normal = Greater (stored, zero)
        hidden = Where (normal, exponent_unit, zero)
        whole = Add (fraction, hidden)
        number = Cast <to = 1> (whole)
        significand = Mul (number, fraction_unit)
        power = Gather <axis = 0> (powers, stored)
        size = Mul (significand, power)
        special = Equal (stored, infinite)
        some = Greater (fraction, zero)
        nan_or_infinity = Where (some, nan, infinity)
        absolute = Where (special, nan_or_infinity, size)
        minus = Neg (absolute)
        value = Where (negative, minus, absolute)
    """
    sign_bit = 1 << (form.exponent + form.fraction)
    exponents = np.maximum(np.arange(form.infinite + 1), 1) - float(form.bias)
    with np.errstate(over="ignore", under="ignore"):
        powers = np.exp2(exponents).astype(np.float32)
    powers[-1] = 1  # not used: its product would warn
    return text, {
        "zero": carrier.constant(0),
        "sign_bit": carrier.constant(-sign_bit if carrier.signed else sign_bit),
        "exponent_unit": carrier.constant(1 << form.fraction),
        "infinite": carrier.constant(form.infinite),
        "fraction_unit": _single(2.0**-form.fraction),
        "powers": powers,
        "nan": _single(np.nan),
        "infinity": _single(np.inf),
    }


def _single(value: float) -> np.ndarray:
    return np.array(value, np.float32)
