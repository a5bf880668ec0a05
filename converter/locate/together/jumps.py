"""Finds the nodes at which an error comes up first, among those that are computed wrongly in company."""

from __future__ import annotations

import math
from collections.abc import Iterable

from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.node_fault import NodeFault

MINOR = 0.1
"""Errors below this share of the largest do not count: an output apart from a kernel may be rounded another way."""


def first_jumps(view: GraphView, suspects: Iterable[NodeFault]) -> list[NodeFault]:
    """Those behind no other, in order; of large errors all are of one size."""
    sizes = {fault: jump_size(fault) for fault in suspects}
    least = MINOR * max(sizes.values(), default=0.0)
    large = {fault.node: fault for fault, size in sizes.items() if size >= least}
    reached: set[str] = set()
    first = []
    for i, node in enumerate(view.nodes):
        behind = not reached.isdisjoint(view.reads[i])
        if i in large and not behind:
            first.append(large[i])
        if i in large or behind:
            reached.update(filter(None, node.output))
    return first


def jump_size(fault: NodeFault) -> float:
    """The error that the node adds: the ratio of norms, at most 1; 1 where shapes or what is finite differ."""
    return max((_size(c.relative) for c in fault.local if not c.agrees), default=0.0)


def _size(relative: float) -> float:
    return min(relative, 1.0) if relative and math.isfinite(relative) else 1.0
