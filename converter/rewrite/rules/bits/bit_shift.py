"""Rewrites BitShift as division and multiplication with powers of two: TensorRT has no shifts.

A negative shift, or one by the type's width or more, moves every bit out: the result is 0, or -1 for a negative number
to the right, as ONNX prescribes from opset 28 on (earlier opsets leave it open). Signed types are of opset 28 too.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS, LegalInteger


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
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
    """Shifts unsigned numbers: left, as (a mod 2^(width - n)) * 2^n. The type has room for 2^width."""
    powers = [1 << n for n in range(legal.width + 1)]  # by shift
    factor = w.Gather(legal.constant(powers), n)
    if not left:
        return w.Div(a, factor)
    return w.Mul(w.Mod(a, w.Gather(legal.constant(powers[::-1]), n)), factor)


def _signed(w: Writer, legal: LegalInteger, a: Value, n: Value, left: bool, arithmetic: bool) -> Value:
    """Tables are by shift, 0 to the width. A power that the type lacks is 1: what it multiplies or divides is 0, or not
    used.

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


BIT_SHIFT = NodeRule(
    "bit-shift",
    "BitShift by powers of two",
    ("BitShift",),
    _rewrite,
)
