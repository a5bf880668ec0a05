"""Vectors where TensorRT wants a matrix: they get a dimension of one, and lose it again.

TensorRT-RTX 1.7.1 refuses ArgMax, ArgMin, Hardmax, LogSoftmax and Softmax of a vector ("at least 2 dimensions are
required"), and loses a dimension in the product of a vector with a stack of matrices.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import squeeze, unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.rank(0) != 1:
        return None
    return _product(node) if node.op_type == "MatMul" else _along_it(node)


def _product(node: NodeView) -> Replacement | None:
    right = node.rank(1)
    if right is None or right < 3:
        return None
    body = f"""
        {unsqueeze("row", "x0", [0], node.opset)}
        product = MatMul (row, x1)
        {squeeze("y0", "product", [right - 2], node.opset)}
    """
    return Replacement(statements(node, body), "the vector as a matrix of one row")


def _along_it(node: NodeView) -> Replacement:
    """Along the only axis. Softmax before opset 13 makes a matrix of its input: of one row, here as well."""
    given = ["axis = 1"]
    if node.given("select_last_index"):
        given.append(f"select_last_index = {node.attributes['select_last_index']}")
    scalar = node.op_type.startswith("Arg") and not node.attributes.get("keepdims", 1)
    body = f"""
        {unsqueeze("row", "x0", [0], node.opset)}
        result = {node.op_type} <{", ".join(given)}> (row)
        {squeeze("y0", "result", [0, 1] if scalar else [0], node.opset)}
    """
    return Replacement(statements(node, body), "the vector as a matrix of one row")


VECTORS = NodeRule(
    "vectors",
    "vectors as matrices of one row",
    ("ArgMax", "ArgMin", "Hardmax", "LogSoftmax", "MatMul", "Softmax"),
    _rewrite,
)
