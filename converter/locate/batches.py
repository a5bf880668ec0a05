"""Cuts a graph into runs of consecutive nodes whose values fit in memory together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.region import region_of

Values = Mapping[str, Value]


@dataclass(frozen=True)
class Batch:
    """nodes: indices. marks: values to be made outputs: what the nodes compute, and what they read of others."""

    nodes: tuple[int, ...]
    marks: tuple[str, ...]


def batch_of(view: GraphView, values: Values, nodes: tuple[int, ...]) -> Batch:
    """The nodes with every value that they make or read, so that a node's inputs and outputs are of one run."""
    known = _known(view, values)
    return Batch(
        nodes, tuple(dict.fromkeys(name for i in nodes for name in _touched(view, values, known, i)))
    )


def halves(view: GraphView, values: Values, batch: Batch) -> tuple[Batch, Batch]:
    """The batch in two, for when its values cannot all be outputs."""
    middle = len(batch.nodes) // 2
    return batch_of(view, values, batch.nodes[:middle]), batch_of(view, values, batch.nodes[middle:])


def batches(view: GraphView, values: Values, limit: int) -> Iterator[Batch]:
    """All nodes that make one of `values`, in order. limit: bytes of one batch's marks; a single node may have more."""
    held: list[int] = []
    marked: set[str] = set()
    size = 0
    known = _known(view, values)
    for index, node in enumerate(view.nodes):
        if not any(name in values for name in node.output):
            continue
        own = set(_touched(view, values, known, index))
        more = sum(values[name].nbytes for name in own - marked)
        if held and size + more > limit:
            yield batch_of(view, values, tuple(held))
            held, marked, size = [], set(), 0
            more = sum(values[name].nbytes for name in own)
        held.append(index)
        marked |= own
        size += more
    if held:
        yield batch_of(view, values, tuple(held))


def _known(view: GraphView, values: Values) -> frozenset[str]:
    return frozenset((*values, *view.inputs))


def _touched(view: GraphView, values: Values, known: frozenset[str], index: int) -> Iterator[str]:
    """What is to be known of a node: its outputs, and the last known values before it."""
    region = region_of(view, index, known)
    yield from (name for name in (*region.inputs, *region.outputs) if name in values)
