"""Adds a dimension of size 1 to vectors where TensorRT wants a matrix, and removes it afterwards.

TensorRT-RTX 1.7.1 refuses ArgMax, ArgMin, Hardmax, LogSoftmax and Softmax of a vector ("at least 2 dimensions are
required"), builds no product of two empty vectors, and loses a dimension in that of a vector with a stack of matrices.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer


@node_rule("vectors", "ArgMax", "ArgMin", "Hardmax", "LogSoftmax", "MatMul", "Softmax")
def vectors_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites operators on vectors as operators on matrices of one row."""
    if node.rank(0) != 1:
        return None
    return _product(node) if node.op_type == "MatMul" else _along_it(node)


def _product(node: NodeView) -> Replacement | None:
    right, w = node.rank(1), Writer(node)
    if right == 1 and node.shape(0) == (0,):
        total = w.reduce("ReduceSum", w.Mul(*w.x), [0], keepdims=False)
        return Replacement(w.finish(total), "a sum of no products")
    if right is None or right < 3:
        return None
    return Replacement(
        w.finish(w.Squeeze(w.MatMul(w.Unsqueeze(w.x[0], axes=[0]), w.x[1]), axes=[right - 2])),
        "the vector as a matrix of one row",
    )


def _along_it(node: NodeView) -> Replacement:
    """Reduces along the only axis, as the row of a matrix. Softmax before opset 13 does the same by definition."""
    w = Writer(node)
    scalar = node.op_type.startswith("Arg") and not node.attributes.get("keepdims", 1)
    row = w.Unsqueeze(w.x[0], axes=[0])
    result = w.write(node.op_type, row, axis=1, **node.own("select_last_index"))
    return Replacement(
        w.finish(w.squeeze(result, [0, 1] if scalar else [0])), "the vector as a matrix of one row"
    )
