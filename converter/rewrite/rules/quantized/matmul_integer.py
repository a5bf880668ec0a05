"""MatMulInteger: exact products of 8-bit matrices, in int32."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.quantized.lines import Lines
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    lines = Lines(node)
    result = integer_matmul(lines, 0, 1, 2, 3)
    if isinstance(result, Refusal):
        return result
    result.as_int32(lines, "y0")
    return Replacement(lines.nodes(), "integer products, exact in float32", numerics=result.numerics)


MATMUL_INTEGER = NodeRule(
    "matmul-integer",
    "products of 8-bit matrices become float32 products that are exact",
    ("MatMulInteger",),
    _rewrite,
)
