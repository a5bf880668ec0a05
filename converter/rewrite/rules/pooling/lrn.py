"""Rewrites LRN with an even or large window, or of a rank other than 4 and 5, as sums over slices of the channels."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.pooling.pool_windows import Window, padded, pooled

_NATIVE_SIZES = range(1, 16, 2)
"""Windows of TensorRT's layer."""


@node_rule("lrn", "LRN")
def lrn_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites LRN with windows that TensorRT lacks."""
    size = int(node.attributes["size"])
    if size in _NATIVE_SIZES and (node.rank(0) or 4) >= 4:
        return None
    rank, dtype = node.known_rank(0), node.known_dtype(0)
    w = Writer(node)
    work = "float32" if dtype in ("float16", "bfloat16") else dtype
    x = w.Cast(w.x[0], to=work) if work != dtype else w.x[0]
    # floor((size - 1) / 2) channels before, ceil((size - 1) / 2) after
    win = Window(1, None, size, 1, 1, (size - 1) // 2, size // 2)
    squares = padded(w, w.Mul(x, x), [win], rank)
    total = pooled(w, squares, [win], lambda parts: w.Sum(*parts))
    alpha, beta, bias = (float(node.attributes[name]) for name in ("alpha", "beta", "bias"))
    base = w.Add(w.Mul(total, w.number(alpha / size, work)), w.number(bias, work))
    result = w.Div(x, w.Pow(base, w.number(beta, work)))
    result = result if work == dtype else w.Cast(result, to=dtype)
    return Replacement(w.finish(result), f"LRN over {size} channels as a sum of slices")
