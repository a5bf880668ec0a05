"""Finds the nodes that must be left together for an error that is gone as soon as values between nodes are outputs.

An output keeps TensorRT from fusing the node that makes it with those that read it. So the range of nodes is looked for
which, alone left unmarked, still gives the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.shortest import shortest

Persists = Callable[[Sequence[str]], bool]
"""Whether the model's own outputs are wrong when these values are outputs too."""


def narrow(view: GraphView, values: Mapping[str, Value], limit: int, persists: Persists) -> tuple[int, int]:
    """First and last index of the nodes that the error needs unmarked. With none marked it is known to be there.

    limit: bytes of marks at a time; where they do not fit, those farthest from the range are left out. Two binary
    searches (trtsmith.converter.locate.shortest), an engine each step.
    """

    tried: dict[tuple[str, ...], bool] = {}

    def stays(first: int, last: int) -> bool:
        marks = marks_outside(view, values, first, last, limit)
        if marks not in tried:  # constants between two places add no output
            tried[marks] = persists(marks)
        return tried[marks]

    return shortest(len(view.nodes), stays)


def marks_outside(
    view: GraphView, values: Mapping[str, Value], first: int, last: int, limit: int
) -> tuple[str, ...]:
    """The values of nodes outside the range, as many as fit, the nearest first; in the graph's order.

    What the last node of the range makes is marked too: it is where the range ends.
    """
    before = [n for node in reversed(view.nodes[:first]) for n in node.output if n in values]
    after = [n for node in view.nodes[last:] for n in node.output if n in values]
    chosen: set[str] = set()
    left = limit
    for i in range(max(len(before), len(after))):
        for side in (before, after):
            if i < len(side) and values[side[i]].nbytes <= left:
                chosen.add(side[i])
                left -= values[side[i]].nbytes
    return tuple(name for name in view.made if name in chosen)
