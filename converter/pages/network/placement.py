"""Places a network's nodes: in layers by fast-sugiyama if it is installed, otherwise in rows by depth; in columns.

Networks are deep and narrow: 10,000 nodes are 3,000 rows of a few nodes, of which one would see a line. So the rows are
cut, where few edges pass, into columns that stand side by side.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.engine.child.process import ChildDied, run_child

Edges = Sequence[tuple[int, int]]

ROW, STEP = 64, 176
"""From row to row and from node to node, in units of the picture; a node is 152 by 34."""


def depths(count: int, edges: Edges) -> list[int]:
    """Computes the longest path to each node, 0 for nodes without inputs. Edges lead from lower to higher numbers.

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
    """Places nodes in rows by depth. Nodes stand below those that they read, in the same order."""
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


LONGEST_EDGE = 24
"""Rows that an edge may pass to be laid out: each is a bend, and 3,000 edges over 50 rows took 0.5 s, over 1,000 minutes."""

FINE = 3000
"""Edges up to which the layout with fewer crossings is asked for: at 10,000 it took 1.5 times as long for little."""

TIMEOUT_S = 20.0
ASPECT = 1.7
"""Width over height of the whole, as of a screen."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Placement:
    """The layout in whole units: a node is 152 by 34, placed by its centre.

    places: by node. bends: by edge that passes rows, in order. depth: rows before a node, in the order of computation.
    layered: whether fast-sugiyama made it.
    """

    places: tuple[tuple[int, int], ...]
    bends: Mapping[tuple[int, int], tuple[tuple[int, int], ...]]
    depth: tuple[int, ...]
    layered: bool


def placed(count: int, edges: Edges, timeout_s: float = TIMEOUT_S) -> Placement:
    """Returns places for `count` nodes. Edges lead from lower to higher numbers, and no two join the same pair."""
    depth = depths(count, edges)
    found = _layered(count, edges, depth, timeout_s)
    layered = found is not None
    places, bends = found or (rows(depth, edges), {})
    places, bends = _in_columns(places, bends, edges)
    return Placement(
        tuple((round(x), round(y)) for x, y in places),
        {edge: tuple((round(x), round(y)) for x, y in _straightened(way)) for edge, way in bends.items()},
        tuple(depth),
        layered,
    )


Laid = tuple[list[Point], dict[tuple[int, int], list[Point]]]


def _layered(count: int, edges: Edges, depth: Sequence[int], timeout_s: float) -> Laid | None:
    """By fast-sugiyama, in a child process; None where it is not installed, or takes too long, or ends badly."""
    if not edges or importlib.util.find_spec("fast_sugiyama") is None:
        return None
    short = [(s, t) for s, t in edges if depth[t] - depth[s] <= LONGEST_EDGE]
    if not short:
        return None
    request = json.dumps({"count": count, "edges": short, "fine": len(short) <= FINE})
    try:
        answer = run_child("trtsmith.converter.pages.network.layout_worker", request, "", timeout_s=timeout_s)
    except (ChildDied, TrtsmithError):
        return None
    across, down = STEP / 72, ROW / 72
    known = {int(node): (x * across, y * down) for node, x, y in answer["places"]}
    bends = {}
    for source, target, *numbers in answer["bends"]:
        way = zip(numbers[::2], numbers[1::2], strict=True)
        bends[int(source), int(target)] = [(x * across, y * down) for x, y in way]
    return _with_the_rest(count, known, edges), bends


def _with_the_rest(count: int, known: dict[int, Point], edges: Edges) -> list[Point]:
    """Nodes that no laid out edge touches stand to the left, above the first that reads them, or below what they read."""
    beside: dict[int, int] = {}
    for source, target in edges:
        if source not in known and target in known:
            beside.setdefault(source, target)
        if target not in known and source in known:
            beside.setdefault(target, source)
    left = min((x for x, _ in known.values()), default=0.0) - STEP
    taken: dict[float, int] = {}
    found = []
    for node in range(count):
        if node not in known:
            other = beside.get(node)
            y = 0.0 if other is None else known[other][1] + (ROW if other < node else -ROW)
            known[node] = (left - taken.get(y, 0) * STEP, y)
            taken[y] = taken.get(y, 0) + 1
        found.append(known[node])
    return found


def _in_columns(
    places: list[Point], bends: dict[tuple[int, int], list[Point]], edges: Edges
) -> tuple[list[Point], dict[tuple[int, int], list[Point]]]:
    """Cut into columns of about one height, so that the whole has the form of a screen."""
    if not places:
        return places, bends
    left, right = min(x for x, _ in places), max(x for x, _ in places)
    top = min(y for _, y in places)
    width = right - left + 2.2 * STEP
    lines = [round((y - top) / ROW) for _, y in places]
    count = max(lines) + 1
    height = (count * ROW * width / ASPECT) ** 0.5 / ROW  # rows of a column
    if count <= 40 or count < 1.5 * height:
        return places, bends
    passing = [0] * (count + 1)  # edges over the upper border of a row
    for source, target in edges:
        low, high = sorted((lines[source], lines[target]))
        if high - low <= LONGEST_EDGE:
            for line in range(low + 1, high + 1):
                passing[line] += 1
    starts = [0]
    wanted = count / max(1, round(count / height))  # rows of each, so that the last is as long as the others
    while count - starts[-1] > 1.3 * wanted:
        ideal = starts[-1] + wanted
        near = range(int(ideal - 0.15 * wanted) + 1, int(ideal + 0.15 * wanted) + 1) or range(
            round(ideal), round(ideal) + 1
        )
        starts.append(min(near, key=lambda line: (passing[line], abs(line - ideal))))
    column = [0] * count
    for start in starts[1:]:
        column[start] = 1
    for line in range(1, count):
        column[line] += column[line - 1]

    def moved(point: Point) -> Point:
        line = min(max(round((point[1] - top) / ROW), 0), count - 1)
        which = column[line]
        return point[0] - left + which * width, point[1] - top - starts[which] * ROW

    return [moved(p) for p in places], {edge: [moved(p) for p in way] for edge, way in bends.items()}


def _straightened(way: Sequence[Point]) -> list[Point]:
    """Without the points that lie on the line between their neighbours."""
    found: list[Point] = []
    for point in way:
        while len(found) >= 2 and _on_line(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    return found


def _on_line(a: Point, b: Point, c: Point) -> bool:
    return abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])) < 1.0
