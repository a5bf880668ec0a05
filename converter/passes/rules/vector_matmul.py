"""MatMul of a vector with a stack of matrices: TensorRT loses a dimension of it; with a matrix of one row it does not."""

from __future__ import annotations

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.opset_forms import squeeze, unsqueeze


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    right = node.rank(1)
    if node.rank(0) != 1 or right is None or right < 3:
        return None
    body = f"""
        {unsqueeze("row", "x0", [0], node.opset)}
        product = MatMul (row, x1)
        {squeeze("y0", "product", [right - 2], node.opset)}
    """
    return Replacement(node.statements(body), "the vector as a matrix of one row")


VECTOR_MATMUL = NodeRule(
    "vector-matmul",
    "MatMul of a vector with a stack of matrices",
    ("MatMul",),
    _rewrite,
    (
        Example(
            "stack",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (float[4] x, float[2, 5, 4, 3] z) => (float[2, 5, 3] y) { y = MatMul (x, z) }""",
        ),
        Example(
            "constant",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float[2, 4, 3] z) => (float[2, 3] y) <float[4] x = {1.5, -2, 3, 4}> { y = MatMul (x, z) }""",
        ),
    ),
)
