"""Vectors where TensorRT wants a matrix: they get a dimension of one, and lose it again.

TensorRT-RTX 1.7.1 refuses ArgMax, ArgMin, Hardmax, LogSoftmax and Softmax of a vector ("at least 2 dimensions are
required"), and loses a dimension in the product of a vector with a stack of matrices.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.rank(0) != 1:
        return None
    return _product(node) if node.op_type == "MatMul" else _along_it(node)


def _product(node: NodeView) -> Replacement | None:
    right = node.rank(1)
    if right is None or right < 3:
        return None
    w = Writer(node)
    w.squeeze(w.do("MatMul", w.unsqueeze("x0", [0]), "x1"), [right - 2], "y0")
    return Replacement(w.nodes(), "the vector as a matrix of one row")


def _along_it(node: NodeView) -> Replacement:
    """Along the only axis. Softmax before opset 13 makes a matrix of its input: of one row, here as well."""
    w = Writer(node)
    scalar = node.op_type.startswith("Arg") and not node.attributes.get("keepdims", 1)
    row = w.unsqueeze("x0", [0])
    result = w.do(node.op_type, row, axis=1, **node.own("select_last_index"))
    w.squeeze(result, [0, 1] if scalar else [0], "y0")
    return Replacement(w.nodes(), "the vector as a matrix of one row")


def _example(op_type: str, opset: int, attributes: str, result: str) -> Example:
    return Example(
        f"{op_type}-{opset}",
        f"""<ir_version: 7, opset_import: ["" : {opset}]>
        g (float[6] x) => ({result} y) {{ y = {op_type} <{attributes}> (x) }}""",
    )


VECTORS = NodeRule(
    "vectors",
    "vectors as matrices of one row",
    ("ArgMax", "ArgMin", "Hardmax", "LogSoftmax", "MatMul", "Softmax"),
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
        _example("ArgMax", 11, "axis = 0", "int64[1]"),
        _example("ArgMin", 13, "keepdims = 0, select_last_index = 1", "int64"),
        _example("Softmax", 11, "axis = 0", "float[6]"),
        _example("LogSoftmax", 13, "axis = -1", "float[6]"),
        _example("Hardmax", 13, "axis = 0", "float[6]"),
    ),
)
