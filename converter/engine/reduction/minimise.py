"""Finds a minimal set of failing nodes: by bisection, then by removing ever smaller parts.

The second is the delta debugging of Zeller and Hildebrandt (Simplifying and Isolating Failure-Inducing Input, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

Nodes = frozenset[int]
"""Numbers of nodes. ~n stands for the node n where it is left out and its readers read what it read."""

Tried = Callable[[Sequence[Nodes]], Nodes | None]
"""The first of some sets that fails, as it was tried, which may be larger or smaller; None where none does."""

SMALL = 24
"""With this many nodes or fewer, parts are removed instead of trying windows: the failure may need several places."""


def size(nodes: Nodes) -> int:
    """Counts the nodes, without bypassed ones."""
    return sum(number >= 0 for number in nodes)


def narrowed(
    nodes: Nodes,
    tried: Tried,
    bodies: Nodes = frozenset(),
    whole: Callable[[Nodes], Nodes] = frozenset,
    small: int = 1,
) -> Nodes:
    """Finds the shortest run of consecutive nodes that fails: by halves, and then from either end by binary search.

    What fails is taken to fail in a longer run, too. bodies: nodes inside others, which come with these; whole: gives nodes
    with their bodies. small: with this many nodes or fewer no halves are tried.
    """
    while (count := len(ordered := sorted(nodes - bodies))) > small:
        starts = dict.fromkeys((count // 2, 0, count // 4))
        halves = (whole(frozenset(ordered[start : start + (count + 1) // 2])) for start in starts)
        found = tried([half for half in halves if len(half) < len(nodes)])
        if found is None or len(found) >= len(nodes):
            break
        nodes = found
    for begins in (True, False):
        ordered = sorted(nodes - bodies)
        less, most = 0, len(ordered) - 1 if len(ordered) > small else 0
        while less < most:  # so many nodes can be missing at this end, and more cannot
            middle = (less + most + 1) // 2
            part = ordered[middle:] if begins else ordered[:-middle]
            found = tried([whole(frozenset(part))])
            if found is not None and len(found) < len(nodes):
                less, nodes = middle, found
            else:
                most = middle - 1
    return nodes


def thinned(
    nodes: Nodes,
    tried: Tried,
    candidates: Iterable[int] | None = None,
    *,
    pass_by: bool = False,
    least: int = 1,
) -> Nodes:
    """Removes from the nodes all parts that the failure does not need; in the end one by one.

    least: how many nodes the smallest parts have. candidates: the nodes that may be taken out; None: all. pass_by: lets
    readers of what is taken out read what it read, so that a chain between two nodes that matter becomes short.
    """
    chosen = nodes if candidates is None else frozenset(candidates)
    part = 0

    def without(*groups: Sequence[int]) -> Nodes:
        gone = {n for group in groups for n in group}
        return nodes.difference(gone).union(~n for n in gone if pass_by)

    while True:
        open_ = sorted(n for n in nodes & chosen if n >= 0)
        part = min(part or max(1, len(open_) // 2), max(1, len(open_)))
        removed = False
        # From the end: what computes the outputs is most often not needed for the failure.
        groups = [open_[start : start + part] for start in range(0, len(open_), part)][::-1]
        for at in range(0, len(groups), 2):
            wave = groups[at : at + 2]
            options = [without(*wave), *(map(without, wave) if len(wave) > 1 else ())]
            found = tried([one for one in options if one and size(one) < size(nodes)])
            if found is not None and size(found) < size(nodes):
                nodes, removed = found, True
        if part > least:
            part = max(least, part // 2)
        elif least > 1 or not removed:
            return nodes


def around(named: Nodes, neighbours: Callable[[Nodes], set[int]], most: int) -> Iterator[Nodes]:
    """Yields the nodes, then the nodes with their neighbours within 1, 2, 4, ... steps, up to `most`."""
    nodes, steps = named, 0
    while nodes and len(nodes) <= most:
        yield nodes
        before, more = nodes, max(1, steps)
        for _ in range(more):
            nodes = nodes | neighbours(nodes)
        steps += more
        if nodes == before:
            return
