"""Gives the searched graph its precision, by manifest or flag, and finds nodes that must stay in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import QUANTIZED, PrecisionRequest, engine_request
from trtsmith.converter.engine.bundle.origin import EngineOrigin
from trtsmith.converter.engine.reduction.minimise import narrowed
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.registry import op_name


def check_searchable(request: PrecisionRequest, where: str) -> None:
    """Raises UsageError for 8 bits: manifests do not hold the engine's scales."""
    if request.precision in QUANTIZED:
        what = f"the graph is calibrated for {request.precision}; locate cannot search it, because its scales are unknown"
        expected = "a graph in fp32, fp16 or bf16, or one with QuantizeLinear and DequantizeLinear of its own"
        fix = "convert the model without --precision, or with fp16, and locate the node there"
        raise UsageError(what, where, expected, fix)


def searched(
    rewritten: Rewritten,
    request: PrecisionRequest,
    feeds: Mapping[str, np.ndarray],
    origin: EngineOrigin,
    engine: Path | None,
) -> Rewritten:
    """Returns the rewritten graph in that precision; itself if none is requested.

    UsageError if that is not the graph that the engine was built from, by what its manifest says of it.
    """
    reduced = in_precision(rewritten, request, feeds)
    did, report = origin.reduction, reduced.precision
    if engine is None or did is None or report is None or request.decided is None:
        return reduced
    if {k.node for k in report.kept} != {k.node for k in did.kept} or report.reduced != did.reduced:
        what = (
            f"the model becomes another graph in {request.precision} than the engine's: {report.reduced} nodes are in "
            f"{report.precision} and {len(report.kept)} kept in float32, where the manifest has {did.reduced} and "
            f"{len(did.kept)}"
        )
        expected = (
            "the model that the engine was converted from, with the same inputs frozen, by this trtsmith"
        )
        raise UsageError(what, str(engine), expected, "convert the model again, and name that engine")
    return reduced


def precision_asked(
    asked: PrecisionRequest, origin: EngineOrigin, io_types: Sequence[IoType], engine: Path | None
) -> PrecisionRequest:
    """Returns the engine's precision, or the requested one. Raises UsageError for both, and for unsupported ones."""
    if engine is None:
        check_searchable(asked, f"--precision {asked.precision}")
        return asked
    if asked.precision:
        what = "--precision is given together with an engine, which has its own"
        where = f"--precision {asked.precision}, {engine}"
        raise UsageError(what, where, "one of the two", "remove --precision, or the engine")
    request = engine_request(origin, io_types)
    check_searchable(request, str(engine))
    return request


@dataclass(frozen=True)
class ReducedNodes:
    """The nodes of the searched graph that are in the reduced type.

    nodes: name and operator of those in the reduced type, in order; those between Casts are among them, as what they read
        and give is rounded. again: the graph with these nodes in float32, too.
    """

    nodes: tuple[tuple[str, str], ...]
    again: Callable[[Sequence[str]], Rewritten]

    def followed_by(self, change: Callable[[Rewritten], Rewritten]) -> ReducedNodes:
        """Adds a change to every graph after it."""
        return replace(self, again=lambda names: change(self.again(names)))


def reduction_of(rewritten: Rewritten, reduced: Rewritten, request: PrecisionRequest) -> ReducedNodes | None:
    """Finds the nodes that `reduced`, unlike `rewritten`, computes in a reduced type; None if there are none."""
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
    """Finds the shortest run of consecutive nodes that, in float32, make the outputs agree; () if no run does.

    agrees: whether the outputs of such a graph agree. It is asked a few times the logarithm of the nodes' number.
    """
    names = [name for name, _ in reduction.nodes]

    def enough(nodes: frozenset[int]) -> bool:
        return agrees(reduction.again([names[n] for n in sorted(nodes)]))

    every = frozenset(range(len(names)))
    chosen = narrowed(every, lambda sets: next(filter(enough, sets), None)) if enough(every) else ()
    return tuple(names[n] for n in sorted(chosen))
