"""A toy: Abs as the larger one of a number and its negative."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements


def _rewrite(node: NodeView) -> Replacement | None:
    if node.dtype(0) not in ("float32", "float16"):
        return None
    body = """
        negative = Neg (x0)
        y0 = Max (x0, negative)
    """
    return Replacement(statements(node, body), "made of Neg and Max")


ABSOLUTE = NodeRule("absolute", "Abs by Neg and Max", ("Abs",), _rewrite)
