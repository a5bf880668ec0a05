"""Rewrites Mod of floats with the divisor's sign (fmod = 0, from opset 28 on): TensorRT has the dividend's sign.

From r = fmod(x, y), as Python's % does: r + y where r is not zero and its sign is not y's; zero takes y's sign. An
infinite y leaves a finite x as it is, which x - trunc(x / y) * y would make NaN. The zero of y's sign is 0 / y: of a
choice between constants 0.0 and -0.0 TensorRT-RTX 1.6.1 makes 2147483648.0 (seen on an H200).
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.dtypes import FLOATS


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype not in FLOATS or node.attributes.get("fmod"):
        return None
    w = Writer(node)
    x, y = w.x
    infinity, zero = (w.number(value, dtype) for value in (np.inf, 0.0))
    kept = w.And(w.Not(w.Equal(w.Abs(x), infinity)), w.Equal(w.Abs(y), infinity))
    rest = w.Where(kept, x, w.Mod(x, y, fmod=1))
    is_zero = w.Equal(rest, zero)
    moves = w.And(w.Xor(w.Less(rest, zero), w.Less(y, zero)), w.Not(is_zero))
    return Replacement(
        w.finish(w.Where(is_zero, w.Div(zero, y), w.Where(moves, w.Add(rest, y), rest))),
        "the remainder with the dividend's sign, brought to the divisor's",
        numerics="TensorRT computes a remainder as x - trunc(x / y) * y, which loses digits where x / y is large",
    )


FLOAT_MOD = NodeRule(
    "float-mod",
    "Mod of floats with the divisor's sign",
    ("Mod",),
    _rewrite,
)
