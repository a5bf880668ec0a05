"""Rounds float32 to the values of a smaller format, with operations that are exact in float32.

The distance of neighbours in the format is found by scaling the magnitude with powers of two, not by a logarithm; the
value divided by it, which the scaling gives too, is rounded by Round, half to even. Special values are those of the
tables in ONNX's Cast.
"""

from __future__ import annotations

import math

from trtsmith.converter.rewrite.types.legal_types import SmallFloat
from trtsmith.importers.builder import Value


def rounded(value: Value, form: SmallFloat, *, saturate: bool) -> Value:
    """Rounds `value`, a float32, to nearest even in the format. float4e2m1 saturates in any case, and reads NaN as 0."""
    g = value.builder
    if not form.nan:
        value = g.Where(g.IsNaN(value), 0.0, value)
    # beyond twice the largest all is alike, and infinities would make NaN below; NaN itself passes through all of this
    bound = 2.0 ** (math.floor(math.log2(form.largest)) + 2)
    # by comparisons, not by Max and Min, which may read -0 as 0
    value = g.Where(value > bound, bound, value)
    value = g.Where(value < -bound, -bound, value)
    rest, step = _scaled(value, form)
    result = _limited(g.Round(rest) * step, form, saturate or not form.nan)
    if not form.negative_zero:
        result = g.Where(g.Equal(result, 0.0), 0.0, result)
    return result


def _scaled(value: Value, form: SmallFloat) -> tuple[Value, Value]:
    """(value / step, step): the step is the distance of the format's neighbours around each value, a power of two."""
    g = value.builder
    rest = value * 2.0**-form.low
    step = g.constant(2.0 ** (form.low - form.mantissa))
    exponents = math.floor(math.log2(form.largest)) + 2 - form.low
    for bit in reversed(range(exponents.bit_length())):
        factor = 2.0 ** (2**bit)
        large = ~(g.Abs(rest) < factor)
        rest = g.Where(large, rest * (1 / factor), rest)
        step = g.Where(large, step * factor, step)
    return rest * 2.0**form.mantissa, step


def _limited(value: Value, form: SmallFloat, saturate: bool) -> Value:
    """What is rounded beyond the largest number: that number, or infinity, or NaN."""
    g = value.builder
    beyond = form.largest if saturate else math.inf if form.infinite else math.nan
    value = g.Where(value > form.largest, beyond, value)
    return g.Where(value < -form.largest, -beyond, value)


_LOW, _HIGH = 2.0**-126, 2.0**127


def rounded_to_power(value: Value, mode: str, *, saturate: bool) -> Value:
    """Rounds `value`, a float32, to float8e8m0: a power of two from 2**-127 to 2**127, or NaN.

    mode: up, down or nearest (ties up). The sign is ignored: ONNX leaves negative values open. Below 2**-126, float32's
    own smallest normal number, it does what onnx.reference does; a GPU that flushes subnormals reads 2**-127 as 0.
    """
    g = value.builder
    magnitude = g.Abs(value)
    nan = g.IsNaN(value)
    normal = g.Where(magnitude < _LOW, 1.0, magnitude)
    infinite = normal > 3.4028234663852886e38
    rest = g.Where(nan | infinite, _HIGH, normal)
    power = g.constant(1.0)
    factors = [2.0 ** (2**bit) for bit in reversed(range(7))]
    for factor in factors:
        large = ~(rest < factor)
        rest = g.Where(large, rest * (1 / factor), rest)
        power = g.Where(large, power * factor, power)
    for factor in factors:
        small = rest < 2.0 / factor
        rest = g.Where(small, rest * factor, rest)
        power = g.Where(small, power * (1 / factor), power)
    if mode != "down":
        above = ~(rest < 1.5) if mode == "nearest" else rest > 1.0
        power = g.Where(above, power * 2.0, power)  # may become infinite
    power = g.Where(infinite | (power > _HIGH), _HIGH if saturate else math.nan, power)
    power = g.Where(magnitude < _LOW, _below(magnitude, mode, saturate), power)
    return g.Where(nan, math.nan, power)


def _below(magnitude: Value, mode: str, saturate: bool) -> Value:
    """What is less than float32's smallest normal number."""
    g = magnitude.builder
    smallest = _LOW / 2
    least = g.constant(smallest)
    if mode != "down":
        least = g.Where(magnitude > (0.0 if mode == "up" else smallest), _LOW, smallest)
    return least if saturate else g.Where(magnitude < smallest, math.nan, least)
