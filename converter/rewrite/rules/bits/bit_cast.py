"""Rewrites BitCast as arithmetic: TensorRT has no way to read a float's bits as an integer, nor the reverse.

Between integers of a width it is a Cast, which wraps. A float's sign, exponent and fraction are found by comparison
with powers of two and put together as a number, or the other way round.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.bits.float_formats import FORMATS, bits_of, number_of
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS
from trtsmith.importers.dtypes import BITS, NUMBERS

_NAN = "a NaN becomes the quiet NaN without sign: arithmetic sees neither its payload nor its sign"
_DOUBLE = "the bits of a float64 are those of the float32 that TensorRT computes with, widened"


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    source, number = node.dtype(0) or "", int(node.attributes.get("to", 0))
    target = next((name for name, known in NUMBERS.items() if known == number), "")
    integers = {"bool", *LEGAL_INTEGERS}
    widths = BITS.get(NUMBERS.get(source, 0)), BITS.get(number)
    if None not in widths and widths[0] != widths[1]:
        return Refusal(
            f"BitCast from {source} to {target}, of {widths[0]} and {widths[1]} bits",
            "types of as many bits",
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


BIT_CAST = NodeRule(
    "bit-cast",
    "BitCast by arithmetic",
    ("BitCast",),
    _rewrite,
)
