"""Rewrites MatMulInteger as exact products of 8-bit matrices, in int32."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    result = integer_matmul(w, 0, 1, 2, 3)
    if isinstance(result, Refusal):
        return result
    return Replacement(
        w.finish(result.as_int32(w)), "integer products, exact in float32", numerics=result.numerics
    )


MATMUL_INTEGER = NodeRule(
    "matmul-integer",
    "products of 8-bit matrices become float32 products that are exact",
    ("MatMulInteger",),
    _rewrite,
)
