"""A toy: Abs as the larger one of a number and its negative."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer


def _rewrite(node: NodeView) -> Replacement | None:
    if node.dtype(0) not in ("float32", "float16"):
        return None
    w = Writer(node)
    return Replacement(w.finish(w.Max(w.x[0], w.Neg(w.x[0]))), "made of Neg and Max")


ABSOLUTE = NodeRule("absolute", "Abs by Neg and Max", ("Abs",), _rewrite)
