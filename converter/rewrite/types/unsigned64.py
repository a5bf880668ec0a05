"""uint64 in int64, bit for bit: where the two differ.

Sums and products are the same modulo 2**64. Order is that of the values with their top bits flipped. Quotients are by
Warren, Hacker's Delight, second edition, 9-3: halve the dividend, divide, double, correct by one.
"""

from __future__ import annotations

from onnx import TensorProto

from trtsmith.converter.rewrite.types.emitter import Emitter


def flipped(emit: Emitter, value: str) -> str:
    """The value with its top bit flipped, which brings unsigned order to signed order, and back.

    No sum overflows, and none has the constant -2**63: where that was added twice, TensorRT-RTX 1.6.1 gave a result with
    its top bit wrong (seen on an H200, for Max, Min and TopK).
    """
    part = emit.where(emit("Less", value, emit.integer(0)), emit.integer(2**62), emit.integer(-(2**62)))
    return emit("Add", emit("Add", value, part), part)


def at_least(emit: Emitter, a: str, b: str) -> str:
    """a >= b, of unsigned values."""
    return emit("Not", emit("Less", flipped(emit, a), flipped(emit, b)))


def halved(emit: Emitter, value: str) -> tuple[str, str]:
    """(value // 2, value % 2), unsigned."""
    low = emit("Mod", value, emit.integer(2))
    half = emit("Div", emit("Sub", value, low), emit.integer(2))  # even: exact, whichever way Div rounds
    # a negative int64 lacks 2**64, its half 2**63: added in two parts, neither of which overflows
    part = emit.where(emit("Less", value, emit.integer(0)), emit.integer(2**62), emit.integer(0))
    return emit("Add", emit("Add", half, part), part), low


def quotient(emit: Emitter, a: str, b: str) -> str:
    """a // b. What a division by zero gives is open in ONNX; here it is no trap."""
    zero, one = emit.integer(0), emit.integer(1)
    small = emit("Greater", b, zero)
    divisor = emit.where(small, b, one)
    half, _ = halved(emit, a)
    estimate = emit("Mul", emit("Div", half, divisor), emit.integer(2))
    rest = emit("Sub", a, emit("Mul", estimate, divisor))
    correction = emit.cast(at_least(emit, rest, divisor), TensorProto.INT64)
    large = emit.cast(at_least(emit, a, b), TensorProto.INT64)  # b >= 2**63 goes once at most
    return emit.where(small, emit("Add", estimate, correction), large)


def remainder(emit: Emitter, a: str, b: str) -> str:
    return emit("Sub", a, emit("Mul", quotient(emit, a, b), b))


def to_float(emit: Emitter, value: str) -> str:
    """The value in float32, rounded once: half of it, its last bit kept sticky for the rounding, doubled."""
    half, low = halved(emit, value)
    odd = emit("Mod", half, emit.integer(2))
    sticky = emit("Add", half, emit("Mul", low, emit("Sub", emit.integer(1), odd)))
    doubled = emit("Mul", emit.cast(sticky, TensorProto.FLOAT), emit.number(2.0))
    negative = emit("Less", value, emit.integer(0))
    return emit.where(negative, doubled, emit.cast(value, TensorProto.FLOAT))


def from_float(emit: Emitter, value: str) -> str:
    """A float32 truncated to uint64: from 2**63 on, less 2**64, which is exact there."""
    large = emit("Not", emit("Less", value, emit.number(2.0**63)))
    shifted = emit("Sub", value, emit.number(2.0**64))
    return emit.cast(emit.where(large, shifted, value), TensorProto.INT64)
