"""Chooses nodes of which an engine alone may show what goes wrong in company."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.region import Region
from trtsmith.converter.locate.together.shared import SharedInput

SHARING = (6, 64)
"""Nodes that share a tensor, at the most, in one engine: the nearest first, then more of them."""

BETWEEN = 3
"""Nodes between two of those, at the most, that are computed with them: TensorRT may compute them again in a kernel."""

WINDOWS = (2, 8, 32, 128)
"""Nodes to either side of one, in the model's order, that are tried with it."""


def regions_about(view: GraphView, index: int, shared: Sequence[SharedInput]) -> Iterator[Region]:
    """Parts of the graph with that node, those that may show the most with the fewest nodes first."""
    if shared:
        parts = (sharing(view, index, shared, most) for most in SHARING)
        yield from {part.nodes: part for part in parts}.values()
    for reach in WINDOWS:
        first, last = max(0, index - reach), min(len(view.nodes) - 1, index + reach)
        if last - first + 1 == len(view.nodes):
            return  # that is the model itself
        yield consecutive(view, first, last, index)


def sharing(view: GraphView, index: int, shared: Sequence[SharedInput], most: int) -> Region:
    """The node with the nearest of those that read the same tensors or equal constants, what makes these, and what stands
    between few steps of them; all else is input. Outputs: those that none of these nodes reads, and the node's.
    """
    names = {name for one in shared for name in (one.name, *one.equal)}
    readers = {i for one in shared for more in (one.readers, *one.equal.values()) for i in more}
    nearest = sorted(readers - {index}, key=lambda i: abs(i - index))[: most - 1]
    readers = {index, *nearest}
    fixed = {name for i in readers for name in view.reads[i] if name in names and name not in view.varying}
    makers = {view.producer[name] for name in fixed if name in view.producer}
    nodes = readers | makers | _between(view, readers)
    read = {name for i in nodes for name in view.reads[i]}
    return _region(view, nodes, {i for i in readers if i == index or read.isdisjoint(view.nodes[i].output)})


def _between(view: GraphView, ends: set[int]) -> set[int]:
    """Nodes on ways of at most BETWEEN nodes from one of the ends to another."""
    after = _steps(ends, lambda i: (r for name in view.nodes[i].output for r in view.readers.get(name, ())))
    before = _steps(ends, lambda i: (view.producer[name] for name in view.reads[i] if name in view.producer))
    return {i for i in after.keys() & before.keys() if after[i] + before[i] <= BETWEEN + 1}


def _steps(starts: set[int], following: Callable[[int], Iterable[int]]) -> dict[int, int]:
    """How many steps lead to each node, up to BETWEEN."""
    found = dict.fromkeys(starts, 0)
    edge = starts
    for step in range(1, BETWEEN + 1):
        edge = {i for at in edge for i in following(at)} - found.keys()
        found |= dict.fromkeys(edge, step)
    return found


def consecutive(view: GraphView, first: int, last: int, shown: int) -> Region:
    """The nodes from the first to the last. Outputs: what others read, and those of the node `shown`."""
    nodes = set(range(first, last + 1))
    read = set(view.outputs).union(*(view.reads[i] for i in range(len(view.nodes)) if i not in nodes))
    return _region(view, nodes, {i for i in nodes if i == shown or not read.isdisjoint(view.nodes[i].output)})


def _region(view: GraphView, nodes: Iterable[int], shown: set[int]) -> Region:
    """With the constants that they read. Outputs: all of the nodes `shown`."""
    chosen = set(nodes)
    read = dict.fromkeys(name for i in sorted(chosen) for name in view.reads[i])
    chosen |= {view.producer[name] for name in read if name in view.constants}
    made = set(view.made_by(chosen))
    inputs = tuple(n for n in read if n not in made and (n in view.producer or n in view.inputs))
    return Region(tuple(sorted(chosen)), inputs, view.made_by(sorted(shown)))
