"""The precision pass: computes nodes in float16 or bfloat16, except those that must stay in float32."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from onnx import TensorProto as T

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.collector import collector_paused
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.node import Node
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.local_functions import inline
from trtsmith.converter.rewrite.precision.affine import fold_affine
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.formats import BF16, Format
from trtsmith.converter.rewrite.precision.judge import WHOLE_SUM, Judge, Judgement, Wish, foreign
from trtsmith.converter.rewrite.precision.keep import Kept, kept_by_user
from trtsmith.converter.rewrite.precision.opset import BF16_OPSET, QDQ_OPSET, at_least
from trtsmith.converter.rewrite.precision.policy import INTERFACES
from trtsmith.converter.rewrite.precision.ports import Ports, reducible_ports
from trtsmith.converter.rewrite.precision.regions import assign, flow_of, is_cast
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.precision.sums import is_sum, reduced_share
from trtsmith.converter.rewrite.precision.writer import PrecisionWriter
from trtsmith.converter.rewrite.types import IoType

MARGIN = 2.0
"""By how much larger values may be on other inputs than on those that were tried."""

LEAST_SHARE = 0.05
"""Of a quantized network's products, which are of whole numbers and in float32. Where fewer would be in the type, it stays
as it is: it gains nothing by the Casts around the rest, and rounding there flips its steps."""

_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True)
class Reduction:
    """The changes of a graph, and its inputs and outputs with a new type."""

    report: PrecisionReport
    io_types: tuple[IoType, ...]


def reduce_precision(
    graph: Graph,
    fmt: Format,
    *,
    keep: Sequence[str] = (),
    rewrites: Sequence[Rewrite] = (),
    seen: Mapping[str, float] = _NOTHING,
    reduced_io: bool = False,
    keep_only: bool = False,
    decided: Mapping[str, str] | None = None,
    longest: int | None = None,
    wide: Mapping[str, str] | None = None,
    zeros: bool = False,
) -> Reduction:
    """Computes a model's float32 nodes in `fmt` where accuracy allows. Values of other types are unchanged.

    graph:      what TensorRT gets, types inferred, before and afterwards. It is changed in place.
    keep:       --keep-fp32: names of nodes, patterns, operators.
    rewrites:   what nodes of the original became, whose names `keep` may use.
    seen:       largest magnitude of values in a float32 run, by name (converter/rewrite/precision/widen.py).
    reduced_io: whether float32 inputs and outputs of the model get the type too.
    keep_only:  whether no other node stays in float32 for the sake of accuracy; `seen` is then not asked.
    decided:    by node, why it stays in float32, from the report of an earlier reduction, which is done again: no other
        node stays for reasons of its own, and `keep` and `seen` are not asked.
    longest:    how many products a reduced node may sum (converter/rewrite/precision/sums.py); None: any number.
    wide:       by node, why it must sum in float32, however few products it has.
    zeros:      whether values of `seen` that the type has zero for may become that.
    Of a quantized network that would get less than LEAST_SHARE nothing is written, but for `folded`: the report says so.
    UsageError: `keep` names nothing. ConversionError: an old opset, which knows no bfloat16, that
    onnx cannot convert.
    """
    with collector_paused():
        if graph.functions:
            graph.become(infer_shapes(inline(graph.model(), frozenset(graph.functions))))
        _bring_to_opset(graph, fmt)
        before = _edge_types(graph)
        order = list(graph.nodes())
        _name_all(order)
        asked = kept_by_user(keep, ((n.name, _kind(n)) for n in order if not is_cast(n)), rewrites)
        if decided is not None:
            asked = dict(decided)
        folded = fold_affine(graph, fmt, asked, Converted(graph, T.FLOAT))
        if folded:
            order = list(graph.nodes())
        limit, final = fmt.largest / MARGIN, decided is not None
        judge = Judge(fmt, asked, seen, limit, final, keep_only, longest, wide or {}, zeros)
        ports, judged, reduced = _decisions(order, judge, reduced_io)
        whole = [node for node, wish in judged.items() if wish.reason == WHOLE_SUM]
        free = [n for n in reduced if is_sum(n) and n not in whole and n.name not in asked]
        share = None if reduced_io or final or keep_only else reduced_share(reduced, whole)
        if share is not None and share < LEAST_SHARE:
            return Reduction(PrecisionReport("float32", 0, (), 0, 0, 0, seen=bool(seen), share=share), ())
        kept = tuple(_kept(order, judged))
        weights = Converted(graph, fmt.elem)
        writer = PrecisionWriter(graph, fmt, ports, reduced, weights, reduced_io)
        writer.write()
        graph.infer()
    report = PrecisionReport(
        precision=fmt.name,
        reduced=sum(reduced.values()),
        kept=kept,
        beside=sum(1 for n, wish in judged.items() if wish.wish is Wish.EITHER and not reduced[n]),
        casts=writer.casts,
        weights=weights.count,
        seen=bool(seen),
        folded=folded,
        products=len(free),
        products_reduced=sum(reduced[node] for node in free),
    )
    return Reduction(report, _io_types(before, _edge_types(graph), fmt) if reduced_io else ())


def values_in_float32(model: Model, fmt: Format, kept: Collection[str] | None) -> frozenset[str]:
    """Finds results of nodes that stay in float32 when the model is reduced. Needs inferred types and no functions.

    kept: names of the nodes that stay in float32 for a reason, from the report of a reduction; None: the pass judges them.
    """
    with collector_paused():
        order = list(Graph(model).nodes())
        _name_all(order)
        judge = Judge(fmt, dict.fromkeys(kept or (), "kept"), {}, fmt.largest / MARGIN, kept is not None)
        _, _, reduced = _decisions(order, judge, reduced_io=False)
        return frozenset(name for node in order if not reduced.get(node) for name in node.outputs)


def _decisions(
    order: Sequence[Node], judge: Judge, reduced_io: bool
) -> tuple[dict[Node, Ports], dict[Node, Judgement], dict[Node, bool]]:
    """The type that each node can take, the one that it prefers, and the one that it gets."""
    ports = {n: p for n in order if not _typed(n) and (p := reducible_ports(n, judge.fmt.elem))}
    judged = judge.judge(order, ports)
    return ports, judged, assign(order, ports, judged, flow_of(order, ports, reduced_io), reduced_io)


def _bring_to_opset(graph: Graph, fmt: Format) -> None:
    """An opset that knows the type: in Cast, and in Q/DQ, which otherwise stay in float32 between Casts."""
    if fmt is BF16 and graph.opset("") < BF16_OPSET:
        graph.become(at_least(graph.model(), BF16_OPSET))
    if graph.opset("") < QDQ_OPSET and any(node.op_type in _QDQ for node in graph.nodes()):
        with suppress(ConversionError):  # right all the same: only slower
            graph.become(at_least(graph.model(), QDQ_OPSET))


def _typed(node: Node) -> bool:
    """Casts and constants have the type that others ask for; what enters and leaves graphs inside nodes is float32."""
    return is_cast(node) or (not node.domain and node.op_type in ("Constant", *INTERFACES))


def _name_all(order: Sequence[Node]) -> None:
    """Reports speak of nodes by their names: those that have none, or share one, get one."""
    for node in order:
        name = node.scope.whole.unique_name(node)
        if name != node.name:
            node.rename(name)


def _kind(node: Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _kept(order: Sequence[Node], judged: Mapping[Node, Judgement]) -> Iterator[Kept]:
    for node in order:
        reason = judged[node].reason if node in judged else foreign(node)
        if reason:
            yield Kept(node.name, _kind(node), reason)


def _edge_types(graph: Graph) -> dict[str, int]:
    """Element types of the model's inputs and outputs, by name."""
    return {name: graph.root.elem_type(name) for name in (*graph.root.inputs, *graph.root.results)}


def _io_types(before: Mapping[str, int], after: Mapping[str, int], fmt: Format) -> tuple[IoType, ...]:
    return tuple(
        IoType(name, "float32", fmt.name)
        for name, elem in before.items()
        if after[name] == fmt.elem and elem != fmt.elem
    )
