"""Reads the axes of a Reduce node from its attribute, or from its input in opset 13 or 18 and later."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView


def reduced_axes(node: NodeView, rank: int | None) -> list[int] | None:
    """Returns the axes in order, as numbers from 0 on, or as in the model for an unknown rank. None if they are known only
    at run time.
    """
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
