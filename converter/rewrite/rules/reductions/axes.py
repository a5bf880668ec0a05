"""Writes the axes of reductions as constants where only folding makes them constant."""

from __future__ import annotations

from shlex import quote

from trtsmith.converter.graph.operator_groups import REDUCTIONS
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer

_SEEN_THROUGH = frozenset({"Identity", "Cast"})
"""Operators that TensorRT-RTX 1.7.1 computes itself on the way to the axes of a reduction. It does so for no other, and
takes empty axes as ONNX means them. For Squeeze and Unsqueeze it computes all, from fixed shapes too."""


_ATTRIBUTES = ("keepdims", "noop_with_empty_axes")


@node_rule("axes", *REDUCTIONS, "Squeeze", "Unsqueeze")
def axes_rule(node: NodeView) -> Replacement | Refusal | None:
    """Gives reductions constant axes where the graph computes them as constants."""
    if not node.input(1):
        return None
    axes = node.constant(1)
    if axes is not None and node.op_type in REDUCTIONS and node.folded(1, beyond=_SEEN_THROUGH):
        w = Writer(node)
        nodes = w.finish(w.write(node.op_type, w.x[0], axes, **node.own(*_ATTRIBUTES)))
        return Replacement(nodes, "the axes that the graph computes, as a constant")
    if axes is not None:
        return None
    maker = node.producer(1)
    if maker is not None and node.op_type not in REDUCTIONS:
        return None  # TensorRT may know more of shapes than ONNX's inference
    how = "fed" if maker is None else f"computed by {maker.op_type}"
    return Refusal(
        f"the axes ({node.input(1)!r}) are {how} at run time",
        "constant axes",
        f"freeze what they come from: --freeze {quote(node.input(1))}=VALUES",
    )
