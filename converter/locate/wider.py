"""Finds the nodes of a graph in reduced precision that must be in float32 for the outputs to agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.reduction.minimise import narrowed
from trtsmith.converter.engine.reduction.node_table import op_name
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.rewrite import Rewritten


@dataclass(frozen=True)
class ReducedNodes:
    """How the graph that is searched came to its types.

    nodes: name and operator of those in the reduced type, in order; those between Casts are among them, as what they read
        and give is rounded. again: the graph with these nodes in float32, too.
    """

    nodes: tuple[tuple[str, str], ...]
    again: Callable[[Sequence[str]], Rewritten]

    def followed_by(self, change: Callable[[Rewritten], Rewritten]) -> ReducedNodes:
        """The same, with a change to every graph after it."""
        return replace(self, again=lambda names: change(self.again(names)))


def reduction_of(rewritten: Rewritten, reduced: Rewritten, request: PrecisionRequest) -> ReducedNodes | None:
    """How `reduced` came of `rewritten`; None where the precision pass gave no node a reduced type."""
    fmt, report = request.format, reduced.precision
    if fmt is None or report is None:
        return None
    proto = (reduced.typed or reduced.model).proto  # before rules put some of its nodes between Casts
    dtypes = value_dtypes(proto)
    nodes = tuple(
        (node.name, op_name(node))
        for graph in all_graphs(proto.graph)
        for node in graph.node
        if node.op_type not in ("Cast", "Constant") and any(dtypes.get(n) == fmt.name for n in node.output)
    )
    kept = {one.node: one.reason for one in report.kept}

    def again(names: Sequence[str]) -> Rewritten:
        decided = kept | dict.fromkeys(names, "tried in float32")
        return in_precision(rewritten, replace(request, decided=decided))

    return ReducedNodes(nodes, again) if nodes else None


def fewest(reduction: ReducedNodes, agrees: Callable[[Rewritten], bool]) -> tuple[str, ...]:
    """The shortest run of consecutive nodes which, in float32, make the outputs agree; () where all of them do not.

    agrees: whether the outputs of such a graph agree. It is asked a few times the logarithm of the nodes' number.
    """
    names = [name for name, _ in reduction.nodes]

    def enough(nodes: frozenset[int]) -> bool:
        return agrees(reduction.again([names[n] for n in sorted(nodes)]))

    every = frozenset(range(len(names)))
    chosen = narrowed(every, lambda sets: next(filter(enough, sets), None)) if enough(every) else ()
    return tuple(names[n] for n in sorted(chosen))
