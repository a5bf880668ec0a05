"""BitCast by arithmetic: TensorRT has no way to read a float's bits as an integer, nor the reverse.

Between integers of a width it is a Cast, which wraps. A float's sign, exponent and fraction are found by comparison
with powers of two and put together as a number, or the other way round.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import read_by
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.bits.float_formats import FORMATS, bits_of, number_of
from trtsmith.converter.rewrite.rules.bits.legal_integers import CARRIERS
from trtsmith.importers.dtypes import NUMBERS

_NAN = "a NaN becomes the quiet NaN without sign: arithmetic sees neither its payload nor its sign"
_DOUBLE = "the bits of a float64 are those of the float32 that TensorRT computes with, widened"


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    source, number = node.dtype(0) or "", int(node.attributes.get("to", 0))
    target = next((name for name, known in NUMBERS.items() if known == number), "")
    integers = {"bool", *CARRIERS}
    if source == target or (source in integers and target in integers):
        return Replacement(statements(node, f"y0 = Cast <to = {number}> (x0)"), "a Cast")
    if source in FORMATS and target in CARRIERS:
        carrier = CARRIERS[target]
        text, constants = bits_of(FORMATS[source], carrier)
        body = f"value = Cast <to = 1> (x0)\n{text}\ny0 = Cast <to = {number}> (bits)"
    elif source in CARRIERS and target in FORMATS:
        carrier = CARRIERS[source]
        text, constants = number_of(FORMATS[target], carrier)
        body = f"bits = Cast <to = {carrier.onnx_type}> (x0)\n{text}\ny0 = Cast <to = {number}> (value)"
    else:
        return Refusal(
            f"BitCast from {source or 'an unknown type'} to {target or f'element type {number}'}",
            "between integers, or between an integer and float16, bfloat16, float32 or float64",
            "write two BitCasts, with an integer in between",
        )
    return Replacement(
        statements(node, body, **read_by(body, constants)),
        "sign, exponent and fraction by arithmetic",
        numerics=_DOUBLE if "float64" in (source, target) else _NAN,
    )


BIT_CAST = NodeRule(
    "bit-cast",
    "BitCast by arithmetic",
    ("BitCast",),
    _rewrite,
)
