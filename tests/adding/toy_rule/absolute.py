"""A toy rule: Abs as the larger of a number and its negative."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer


@node_rule("absolute", "Abs")
def absolute_rule(node: NodeView) -> Replacement | None:
    """Abs by Neg and Max."""
    if node.dtype(0) not in ("float32", "float16"):
        return None
    w = Writer(node)
    return Replacement(w.finish(w.Max(w.x[0], w.Neg(w.x[0]))), "made of Neg and Max")
