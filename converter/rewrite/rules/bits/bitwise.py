"""Rewrites BitwiseAnd, -Or, -Xor and -Not as integer arithmetic: TensorRT has logical operators for bools only.

Only And looks at bits: by digits, or by a remainder where one operand is a constant mask. The others follow from it without
overflow, as every difference below is itself a value of the type (b - (a & b) is b & ~a):  a | b = a + (b - (a & b)),
a ^ b = (a - (a & b)) + (b - (a & b)),  ~a = -1 - a.

Rewrites BitShift as division and multiplication with powers of two: TensorRT has no shifts.

A negative shift, or one by the type's width or more, moves every bit out: the result is 0, or -1 for a negative number
to the right, as ONNX prescribes from opset 28 on (earlier opsets leave it open). Signed types are of opset 28 too.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS, LegalInteger


@node_rule("bit-shift", "BitShift")
def bit_shift_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites BitShift as division and multiplication by powers of two."""
    dtype = node.dtype(0)
    direction = node.attributes.get("direction")
    if dtype is None or dtype not in LEGAL_INTEGERS or direction not in ("LEFT", "RIGHT"):
        return Refusal(
            f"{node.input(0)!r} is {dtype or 'of unknown type'}, direction {direction!r}",
            "an integer type, LEFT or RIGHT",
            "give the model types and a direction: onnx.checker names what is wrong with it",
        )
    legal = LEGAL_INTEGERS[dtype]
    w = Writer(node)
    a, given = w.Cast(w.x[0], to=legal.dtype), w.Cast(w.x[1], to=legal.dtype)
    zero, width = w.constant(legal.constant(0)), w.constant(legal.constant(legal.width))
    beyond = w.Or(w.Less(given, zero), w.Greater(given, width))
    step = _signed if legal.signed else _unsigned
    result = step(w, legal, a, w.Where(beyond, width, given), direction == "LEFT", dtype != "uint64")
    return Replacement(w.finish(w.Cast(result, to=dtype)), "arithmetic with powers of two")


def _unsigned(w: Writer, legal: LegalInteger, a: Value, n: Value, left: bool, arithmetic: bool) -> Value:
    """Shifts unsigned numbers; to the left by (a mod 2^(width - n)) * 2^n, as the type has room for 2^width."""
    powers = [1 << n for n in range(legal.width + 1)]  # by shift
    factor = w.Gather(legal.constant(powers), n)
    if not left:
        return w.Div(a, factor)
    return w.Mul(w.Mod(a, w.Gather(legal.constant(powers[::-1]), n)), factor)


def _signed(w: Writer, legal: LegalInteger, a: Value, n: Value, left: bool, arithmetic: bool) -> Value:
    """Shifts signed numbers with tables indexed by the shift, from 0 to the width. Powers that overflow the type are stored
    as 1, since the factor beside them is 0 or ignored.

    signs: what the sign bit becomes; -(2^(width - 1 - n)) to the right, or without the minus where the bits of an
    unsigned type are moved.
    """
    width, top = legal.width, legal.width - 1
    zero = w.constant(legal.constant(0))

    def looked_up(*table: int) -> Value:
        return w.Gather(legal.constant(table), n)

    magnitude, negative = legal.magnitude(w, a)
    power = looked_up(*(1 << n if n < top else 1 for n in range(width + 1)))
    if not left:
        extension = -1 if arithmetic else 0
        signs = (-(1 << top), *((extension or 1) << (top - n) for n in range(1, width)), extension)
        in_range = looked_up(*(int(n < top) for n in range(width + 1)))
        moved = w.Mul(w.Div(magnitude, power), in_range)
        return w.Add(moved, w.Where(negative, looked_up(*signs), zero))
    keep = looked_up(1, *(1 << (top - n) for n in range(1, width)), 1)
    moved = w.Mul(w.Mod(magnitude, keep), power)
    # The bit that arrives at the top is the sign, which no product gives without overflow.
    arriving = w.Mod(w.Div(magnitude, keep), legal.constant(2))
    sign = w.Mul(arriving, looked_up(0, *(-(1 << top) for _ in range(1, width)), 0))
    return w.Where(w.Equal(n, zero), a, w.Add(moved, sign))


_Signed = tuple[Value, Value | None]
"""A magnitude, and whether the number is negative, as LegalInteger.magnitude gives them."""

_RADIX = 16
"""Digits that are looked up in pairs: 256 products of digits; 2 would need no table, but four times the memory."""


def _modulus(mask: np.ndarray | None, legal: LegalInteger, high: bool) -> np.ndarray | None:
    """2^k for each element of a mask of the k lowest bits, or of all other bits if `high`; None for other masks."""
    if mask is None:
        return None
    ones = (1 << legal.width) - 1
    highest = int(np.iinfo(legal.dtype).max)
    low = [(int(n) & ones) ^ (ones if high else 0) for n in mask.reshape(-1)]
    if any(n >= highest or n & (n + 1) for n in low):
        return None
    return legal.constant([n + 1 for n in low]).reshape(mask.shape)


def _masked(w: Writer, value: Value, magnitude: Value, power: np.ndarray, high: bool) -> Value:
    """The k lowest bits, x modulo 2^k, or the others. The magnitude suffices, as the type's lowest value is a multiple of
    2^k.
    """
    low = w.Mod(magnitude, power)
    return w.Sub(value, low) if high else low


def _digitwise(w: Writer, legal: LegalInteger, a: _Signed, b: _Signed) -> Value:
    """Computes And digit by digit: looks up each pair of digits along new last axes and adds the weighted results.

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


@node_rule("bitwise", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor")
def bitwise_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites bitwise And, Or, Xor and Not as integer arithmetic."""
    dtype = node.known_dtype(0)
    if dtype not in LEGAL_INTEGERS:
        return Refusal(
            f"the element type of {node.input(0)!r} is {dtype}",
            "an integer type of 8 to 64 bits",
            "cast the input where the model is exported",
        )
    legal = LEGAL_INTEGERS[dtype]
    w = Writer(node)
    a = w.Cast(w.x[0], to=legal.dtype)
    if node.op_type == "BitwiseNot":
        ones = legal.constant(-1 if legal.signed else (1 << legal.width) - 1)
        return Replacement(w.finish(w.Cast(w.Sub(ones, a), to=dtype)), "the all-ones value less the operand")
    values = (a, w.Cast(w.x[1], to=legal.dtype))
    parts = [legal.magnitude(w, value) for value in values]
    masks = ((i, high, _modulus(node.constant(i), legal, high)) for high in (False, True) for i in (0, 1))
    at, high, power = next((mask for mask in masks if mask[2] is not None), (0, False, None))
    if power is None:
        both, how = _digitwise(w, legal, *parts), "digits of four bits"
    else:
        both = _masked(w, values[1 - at], parts[1 - at][0], power, high)
        how = "a remainder, as the mask is constant"
    return Replacement(
        w.finish(w.Cast(_last_step(w, node.op_type, *values, both), to=dtype)), f"integer arithmetic on {how}"
    )


def _last_step(w: Writer, op_type: str, a: Value, b: Value, both: Value) -> Value:
    """Computes the operator from a, b and a & b."""
    if op_type == "BitwiseAnd":
        return both
    return w.Add(a if op_type == "BitwiseOr" else w.Sub(a, both), w.Sub(b, both))
