"""Gates in float16 and bfloat16 (gate_shapes.py), in float32 between Casts, for TensorRT-RTX."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.pointwise.gate_shapes import is_gate

_FAILS = "TensorRT-RTX 1.6.1 fails to run some gates of channels in 16 bits: it is computed in float32 between Casts"


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16") or any(node.is_constant(i) for i in range(2)):
        return None
    if not is_gate([node.dims(0), node.dims(1)]):
        return None
    w = Writer(node)
    w.cast(w.do("Mul", w.cast("x0", "float32"), w.cast("x1", "float32")), dtype, result="y0")
    return Replacement(w.nodes(), f"a product in float32, rounded to {dtype}", notes=(_FAILS,))


_GATE = """<ir_version: 8, opset_import: ["" : 17]>
g (float16[N, 4, h, w] x, float16[4, 1, 3, 3] k, float16[4, 4, 1, 1] v) => (float16[N, 4, h, w] y) {
    a = Conv <pads = [1, 1, 1, 1], group = 4> (x, k)
    p = GlobalAveragePool (a)
    q = Conv (p, v)
    g = Sigmoid (q)
    y = Mul (PLACES)
}"""

HALF_GATES = NodeRule(
    "half-gates",
    "gates of channels in 16 bits, of dynamic shapes, in float32",
    ("Mul",),
    _rewrite,
    tuple(
        Example(
            f"the gate {place}",
            _GATE.replace("PLACES", factors),
            feeds={"x": np.random.default_rng(7).standard_normal((2, 4, 6, 5)).astype(np.float16)},
            rtol=2e-3,
            atol=1e-3,
        )
        for place, factors in (("last", "a, g"), ("first", "g, a"))
    ),
)
