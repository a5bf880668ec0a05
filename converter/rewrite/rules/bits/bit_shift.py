"""BitShift by division and multiplication with powers of two, looked up by the shift. TensorRT has no shifts.

A negative shift, or one by the type's width or more, moves every bit out: the result is 0, or -1 for a negative number
to the right, as ONNX prescribes from opset 28 on (earlier opsets leave it open). Signed types are of opset 28 too.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import read_by
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.bits.legal_integers import CARRIERS, Carrier
from trtsmith.importers.dtypes import NUMBERS

_LEFT = """
    keep = Gather (moduli, n)
    factor = Gather (powers, n)
    kept = Mod (a, keep)
    result = Mul (kept, factor)
"""
"""The bits that stay, moved: (a mod 2^(width - n)) * 2^n."""

_RIGHT = """
    divisor = Gather (powers, n)
    result = Div (a, divisor)
"""

_LEFT_SIGNED = """
    keep = Gather (moduli, n)
    factor = Gather (powers, n)
    low = Mod (a_m, keep)
    moved = Mul (low, factor)
    above = Div (a_m, keep)
    top = Mod (above, two)
    weight = Gather (signs, n)
    sign = Mul (top, weight)
    some = Add (moved, sign)
    none = Equal (n, zero)
    result = Where (none, a, some)
"""
"""The bit that arrives at the top is the sign of the carrier, which no product gives without overflow."""

_RIGHT_SIGNED = """
    divisor = Gather (powers, n)
    low = Div (a_m, divisor)
    in_range = Gather (kept, n)
    moved = Mul (low, in_range)
    weight = Gather (signs, n)
    sign = Where (a_s, weight, zero)
    result = Add (moved, sign)
"""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    direction = node.attributes.get("direction")
    if dtype is None or dtype not in CARRIERS or direction not in ("LEFT", "RIGHT"):
        return Refusal(
            f"{node.input(0)!r} is {dtype or 'of unknown type'}, direction {direction!r}",
            "an integer type, LEFT or RIGHT",
            "give the model types and a direction: onnx.checker names what is wrong with it",
        )
    carrier = CARRIERS[dtype]
    left = direction == "LEFT"
    constants = _tables_signed(carrier, left, dtype != "uint64") if carrier.signed else _tables(carrier)
    step = (_LEFT_SIGNED if left else _RIGHT_SIGNED) if carrier.signed else (_LEFT if left else _RIGHT)
    body = f"""
        a = Cast <to = {carrier.onnx_type}> (x0)
        {carrier.magnitude("a")}
        given = Cast <to = {carrier.onnx_type}> (x1)
        wrapped = Less (given, zero)
        above_all = Greater (given, width)
        beyond = Or (wrapped, above_all)
        n = Where (beyond, width, given)
        {step}
        y0 = Cast <to = {NUMBERS[dtype]}> (result)
    """
    constants |= {"zero": carrier.constant(0), "two": carrier.constant(2), "lowest": carrier.lowest}
    constants["width"] = carrier.constant(carrier.width)
    return Replacement(statements(node, body, **read_by(body, constants)), "arithmetic with powers of two")


def _tables(carrier: Carrier) -> dict[str, np.ndarray]:
    """By shift, 0 to the width; the carrier has room for 2^width."""
    powers = [1 << n for n in range(carrier.width + 1)]
    return {"powers": carrier.constant(powers), "moduli": carrier.constant(powers[::-1])}


def _tables_signed(carrier: Carrier, left: bool, arithmetic: bool) -> dict[str, np.ndarray]:
    """By shift, 0 to the width. A power that the carrier lacks is 1: what it multiplies or divides is 0, or not used.

    signs: what the sign bit becomes; -(2^(width - 1 - n)) to the right, or without the minus where the bits of an
    unsigned type are moved.
    """
    width, top = carrier.width, carrier.width - 1
    inner = range(1, width)
    tables = {"powers": [1 << n if n < top else 1 for n in range(width + 1)]}
    if left:
        tables["moduli"] = [1, *(1 << (top - n) for n in inner), 1]
        tables["signs"] = [0, *(-(1 << top) for _ in inner), 0]
    else:
        tables["kept"] = [int(n < top) for n in range(width + 1)]
        extension = -1 if arithmetic else 0
        tables["signs"] = [-(1 << top), *((extension or 1) << (top - n) for n in inner), extension]
    return {name: carrier.constant(values) for name, values in tables.items()}


BIT_SHIFT = NodeRule(
    "bit-shift",
    "BitShift by powers of two",
    ("BitShift",),
    _rewrite,
)
