"""Reads the axes of a Reduce node, however its opset has them: an attribute, or an input from opset 13 or 18 on."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView


def reduced_axes(node: NodeView, rank: int | None) -> list[int] | None:
    """The axes in order, from 0 on; as in the model if the rank is unknown. None where only a run, or the rank, tells."""
    given = node.attributes.get("axes")
    if given is None and node.input(1):
        constant = node.constant(1)
        if constant is None:
            return None
        given = constant.reshape(-1).tolist()
    if given:
        return sorted(int(axis) if rank is None else int(axis) % rank for axis in given)
    if node.attributes.get("noop_with_empty_axes"):
        return []
    return None if rank is None else list(range(rank))
