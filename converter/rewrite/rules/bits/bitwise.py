"""Rewrites BitwiseAnd, -Or, -Xor and -Not as integer arithmetic: TensorRT has logical operators for bools only.

Only And looks at bits: by digits, or by a remainder where one operand is a constant mask. The others follow from it without
overflow, as every difference below is itself a value of the type (b - (a & b) is b & ~a):  a | b = a + (b - (a & b)),
a ^ b = (a - (a & b)) + (b - (a & b)),  ~a = -1 - a.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS, LegalInteger

_Signed = tuple[Value, Value | None]
"""A magnitude, and whether the number is negative, as LegalInteger.magnitude gives them."""

_RADIX = 16
"""Digits that are looked up in pairs: 256 products of digits; 2 would need no table, but four times the memory."""


def _modulus(mask: np.ndarray | None, legal: LegalInteger, high: bool) -> np.ndarray | None:
    """2^k for every element of a mask of the k lowest bits, or of all others if `high`; None if it is no such mask."""
    if mask is None:
        return None
    ones = (1 << legal.width) - 1
    highest = int(np.iinfo(legal.dtype).max)
    low = [(int(n) & ones) ^ (ones if high else 0) for n in mask.reshape(-1)]
    if any(n >= highest or n & (n + 1) for n in low):
        return None
    return legal.constant([n + 1 for n in low]).reshape(mask.shape)


def _masked(w: Writer, value: Value, magnitude: Value, power: np.ndarray, high: bool) -> Value:
    """x modulo 2^k has the k lowest bits. The lowest value of the type is a multiple of 2^k: the magnitude decides."""
    low = w.Mod(magnitude, power)
    return w.Sub(value, low) if high else low


def _digitwise(w: Writer, legal: LegalInteger, a: _Signed, b: _Signed) -> Value:
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


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype is None or dtype not in LEGAL_INTEGERS:
        return Refusal(
            f"the element type of {node.input(0)!r} is {dtype or 'unknown'}",
            "an integer type of 8 to 64 bits",
            "run onnx.shape_inference on the model, so that types are known",
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
    """Writes the operator from a & b."""
    if op_type == "BitwiseAnd":
        return both
    return w.Add(a if op_type == "BitwiseOr" else w.Sub(a, both), w.Sub(b, both))


BITWISE = NodeRule(
    "bitwise",
    "bitwise And, Or, Xor and Not by integer arithmetic",
    ("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
    _rewrite,
)
