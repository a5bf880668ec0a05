"""Emulates uint64 in int64, bit for bit, where the two differ.

Sums and products are the same modulo 2**64. Order is that of the values with their top bits flipped. Quotients are by
Warren, Hacker's Delight, second edition, 9-3: halve the dividend, divide, double, correct by one.
"""

from __future__ import annotations

from trtsmith.importers.builder import Value


def flipped(value: Value) -> Value:
    """Flips the value's top bit, which brings unsigned order to signed order, and back.

    No sum overflows, and none has the constant -2**63: where that was added twice, TensorRT-RTX 1.6.1 gave a result with
    its top bit wrong (seen on an H200, for Max, Min and TopK).
    """
    part = value.builder.Where(value < 0, 2**62, -(2**62))
    return value + part + part


def at_least(a: Value, b: Value) -> Value:
    """Computes a >= b, of unsigned values."""
    return ~(flipped(a) < flipped(b))


def halved(value: Value) -> tuple[Value, Value]:
    """Computes (value // 2, value % 2), unsigned."""
    low = value.builder.Mod(value, 2)
    half = (value - low) / 2  # even: exact, whichever way Div rounds
    # a negative int64 lacks 2**64, its half 2**63: added in two parts, neither of which overflows
    part = value.builder.Where(value < 0, 2**62, 0)
    return half + part + part, low


def quotient(a: Value, b: Value) -> Value:
    """Computes a // b. A division by zero does not trap; ONNX leaves its result open."""
    g = a.builder
    small = b > 0
    divisor = g.Where(small, b, 1)
    estimate = halved(a)[0] / divisor * 2
    correction = g.Cast(at_least(a - estimate * divisor, divisor), to="int64")
    large = g.Cast(at_least(a, b), to="int64")  # b >= 2**63 goes once at most
    return g.Where(small, estimate + correction, large)


def remainder(a: Value, b: Value) -> Value:
    return a - quotient(a, b) * b


def to_float(value: Value) -> Value:
    """Converts the value to float32, rounded once: half of it, its last bit kept sticky for the rounding, doubled."""
    g = value.builder
    half, low = halved(value)
    sticky = half + low * (1 - g.Mod(half, 2))
    return g.Where(value < 0, g.Cast(sticky, to="float32") * 2.0, g.Cast(value, to="float32"))


def from_float(value: Value) -> Value:
    """Truncates a float32 to uint64: from 2**63 on, less 2**64, which is exact there."""
    g = value.builder
    return g.Cast(g.Where(~(value < 2.0**63), value - 2.0**64, value), to="int64")
