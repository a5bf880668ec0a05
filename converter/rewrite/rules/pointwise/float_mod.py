"""Rewrites Mod of floats with the divisor's sign (fmod = 0, from opset 28 on): TensorRT has the dividend's sign.

From r = fmod(x, y), as Python's % does: r + y where r is not zero and its sign is not y's; zero takes y's sign. An
infinite y leaves a finite x as it is, which x - trunc(x / y) * y would make NaN. The zero of y's sign is 0 / y: of a
choice between constants 0.0 and -0.0 TensorRT-RTX 1.6.1 makes 2147483648.0 (seen on an H200).
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.importers.dtypes import FLOATS

_BODY = """
    quotient_rest = Mod <fmod = 1> (x0, x1)
    x_size = Abs (x0)
    y_size = Abs (x1)
    x_infinite = Equal (x_size, infinity)
    y_infinite = Equal (y_size, infinity)
    x_finite = Not (x_infinite)
    kept = And (x_finite, y_infinite)
    rest = Where (kept, x0, quotient_rest)
    is_zero = Equal (rest, zero)
    not_zero = Not (is_zero)
    rest_below = Less (rest, zero)
    y_below = Less (x1, zero)
    unlike = Xor (rest_below, y_below)
    moves = And (unlike, not_zero)
    moved = Add (rest, x1)
    signed = Where (moves, moved, rest)
    nothing = Div (zero, x1)
    y0 = Where (is_zero, nothing, signed)
"""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype not in FLOATS or node.attributes.get("fmod"):
        return None
    values = {"infinity": np.inf, "zero": 0.0}
    constants = {name: np.array(value).astype(np.dtype(dtype)) for name, value in values.items()}
    return Replacement(
        statements(node, _BODY, **constants),
        "the remainder with the dividend's sign, brought to the divisor's",
        numerics="TensorRT computes a remainder as x - trunc(x / y) * y, which loses digits where x / y is large",
    )


FLOAT_MOD = NodeRule(
    "float-mod",
    "Mod of floats with the divisor's sign",
    ("Mod",),
    _rewrite,
)
