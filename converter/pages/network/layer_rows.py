"""Places nodes in rows by depth: the fallback layout, and the start of the better one."""

from __future__ import annotations

from collections.abc import Sequence

Edges = Sequence[tuple[int, int]]

ROW, STEP = 64, 176
"""From row to row and from node to node, in units of the picture; a node is 152 by 34."""


def depths(count: int, edges: Edges) -> list[int]:
    """For each node the longest way to it, 0 for those that read nothing. Edges lead from lower to higher numbers.

    What reads nothing stands one row above the first that reads it, and not at the top: a constant's neighbours are its
    readers.
    """
    found = [0] * count
    ordered = sorted(edges, key=lambda edge: edge[1])
    for source, target in ordered:
        found[target] = max(found[target], found[source] + 1)
    nearest: dict[int, int] = {}
    reading = {target for _, target in edges}
    for source, target in edges:
        if source not in reading:
            nearest[source] = min(nearest.get(source, found[target]), found[target])
    for source, depth in nearest.items():
        found[source] = max(depth - 1, 0)
    return found


def rows(depth: Sequence[int], edges: Edges) -> list[tuple[float, float]]:
    """A place for each node: rows by depth, in each the nodes in the order of what they read, which centres them."""
    readers: dict[int, list[int]] = {}
    for source, target in edges:
        readers.setdefault(target, []).append(source)
    by_depth: dict[int, list[int]] = {}
    for node, row in enumerate(depth):
        by_depth.setdefault(row, []).append(node)
    x = [0.0] * len(depth)
    for row in sorted(by_depth):
        nodes = by_depth[row]
        wanted = {n: _mean([x[s] for s in readers.get(n, ()) if depth[s] < row]) for n in nodes}
        nodes.sort(key=lambda n: (wanted[n], n))
        middle = _mean([wanted[n] for n in nodes])
        for place, node in enumerate(nodes):
            x[node] = middle + (place - (len(nodes) - 1) / 2) * STEP
    return [(x[node], float(row * ROW)) for node, row in enumerate(depth)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
