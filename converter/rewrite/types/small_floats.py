"""float32 rounded to the values of a smaller format, by operations that are exact in float32.

The distance of neighbours in the format is found by scaling the magnitude with powers of two, not by a logarithm; the
value divided by it, which the scaling gives too, is rounded by Round, half to even. Special values are those of the
tables in ONNX's Cast.
"""

from __future__ import annotations

import math

from trtsmith.converter.rewrite.types.emitter import Emitter
from trtsmith.converter.rewrite.types.legal_types import SmallFloat


def rounded(emit: Emitter, value: str, form: SmallFloat, *, saturate: bool) -> str:
    """`value`, a float32, to nearest even in the format. float4e2m1 saturates in any case, and reads NaN as 0."""
    if not form.nan:
        value = emit.where(emit("IsNaN", value), emit.number(0.0), value)
    # beyond twice the largest all is alike, and infinities would make NaN below; NaN itself passes through all of this
    bound = 2.0 ** (math.floor(math.log2(form.largest)) + 2)
    # by comparisons, not by Max and Min, which may read -0 as 0
    value = emit.where(emit("Greater", value, emit.number(bound)), emit.number(bound), value)
    value = emit.where(emit("Less", value, emit.number(-bound)), emit.number(-bound), value)
    rest, step = _scaled(emit, value, form)
    result = emit("Mul", emit("Round", rest), step)
    result = _limited(emit, result, form, saturate or not form.nan)
    if not form.negative_zero:
        result = emit.where(emit("Equal", result, emit.number(0.0)), emit.number(0.0), result)
    return result


def _scaled(emit: Emitter, value: str, form: SmallFloat) -> tuple[str, str]:
    """(value / step, step): the step is the distance of the format's neighbours around each value, a power of two."""
    rest = emit("Mul", value, emit.number(2.0**-form.low))
    step = emit.number(2.0 ** (form.low - form.mantissa))
    exponents = math.floor(math.log2(form.largest)) + 2 - form.low
    for bit in reversed(range(exponents.bit_length())):
        large = emit("Not", emit("Less", emit("Abs", rest), emit.number(2.0 ** (2**bit))))
        rest = emit.where(large, emit("Mul", rest, emit.number(2.0 ** -(2**bit))), rest)
        step = emit.where(large, emit("Mul", step, emit.number(2.0 ** (2**bit))), step)
    return emit("Mul", rest, emit.number(2.0**form.mantissa)), step


def _limited(emit: Emitter, value: str, form: SmallFloat, saturate: bool) -> str:
    """What is rounded beyond the largest number: that number, or infinity, or NaN."""
    for sign, op_type in ((1.0, "Greater"), (-1.0, "Less")):
        beyond = form.largest if saturate else math.inf if form.infinite else math.nan
        outside = emit(op_type, value, emit.number(sign * form.largest))
        value = emit.where(outside, emit.number(sign * beyond), value)
    return value


_LOW, _HIGH = 2.0**-126, 2.0**127


def rounded_to_power(emit: Emitter, value: str, mode: str, *, saturate: bool) -> str:
    """`value`, a float32, to float8e8m0: a power of two from 2**-127 to 2**127, or NaN.

    mode: up, down or nearest (ties up). The sign is ignored: ONNX leaves negative values open. Below 2**-126, float32's
    own smallest normal number, it does what onnx.reference does; a GPU that flushes subnormals reads 2**-127 as 0.
    """
    magnitude = emit("Abs", value)
    nan = emit("IsNaN", value)
    normal = emit.where(emit("Less", magnitude, emit.number(_LOW)), emit.number(1.0), magnitude)
    infinite = emit("Greater", normal, emit.number(3.4028234663852886e38))
    rest = emit.where(emit("Or", nan, infinite), emit.number(_HIGH), normal)
    power = emit.number(1.0)
    for bit in reversed(range(7)):
        factor = 2.0 ** (2**bit)
        large = emit("Not", emit("Less", rest, emit.number(factor)))
        rest = emit.where(large, emit("Mul", rest, emit.number(1 / factor)), rest)
        power = emit.where(large, emit("Mul", power, emit.number(factor)), power)
    for bit in reversed(range(7)):
        factor = 2.0 ** (2**bit)
        small = emit("Less", rest, emit.number(2.0 / factor))
        rest = emit.where(small, emit("Mul", rest, emit.number(factor)), rest)
        power = emit.where(small, emit("Mul", power, emit.number(1 / factor)), power)
    if mode != "down":
        above = emit("Greater", rest, emit.number(1.0))
        if mode == "nearest":
            above = emit("Not", emit("Less", rest, emit.number(1.5)))
        power = emit.where(above, emit("Mul", power, emit.number(2.0)), power)  # may become infinite
    beyond = emit.number(_HIGH if saturate else math.nan)
    power = emit.where(emit("Or", infinite, emit("Greater", power, emit.number(_HIGH))), beyond, power)
    power = _below(emit, magnitude, power, mode, saturate)
    return emit.where(nan, emit.number(math.nan), power)


def _below(emit: Emitter, magnitude: str, power: str, mode: str, saturate: bool) -> str:
    """What is less than float32's smallest normal number."""
    smallest = emit.number(_LOW / 2)
    least = smallest
    if mode != "down":
        edge = 0.0 if mode == "up" else _LOW / 2
        least = emit.where(emit("Greater", magnitude, emit.number(edge)), emit.number(_LOW), smallest)
    if not saturate:
        least = emit.where(emit("Less", magnitude, smallest), emit.number(math.nan), least)
    return emit.where(emit("Less", magnitude, emit.number(_LOW)), least, power)
