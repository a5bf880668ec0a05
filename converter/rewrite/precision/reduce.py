"""The precision pass: a graph whose nodes are computed in float16 or bfloat16, but for those that must not be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from onnx import TensorProto as T

from trtsmith.converter.graph.collector import collector_paused
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.scopes import Draft, Node, Scope, all_graphs
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.converter.rewrite.precision.affine import fold_affine
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.formats import BF16, Format
from trtsmith.converter.rewrite.precision.judge import Judge, Judgement, Wish, foreign
from trtsmith.converter.rewrite.precision.keep import Kept, kept_by_user
from trtsmith.converter.rewrite.precision.opset import BF16_OPSET, QDQ_OPSET, at_least
from trtsmith.converter.rewrite.precision.policy import INTERFACES
from trtsmith.converter.rewrite.precision.ports import reducible_ports
from trtsmith.converter.rewrite.precision.regions import assign, flow_of, is_cast
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.precision.sums import longest_sum
from trtsmith.converter.rewrite.precision.writer import Writer
from trtsmith.converter.rewrite.target import TENSORRT, Target
from trtsmith.converter.rewrite.types import IoType

MARGIN = 2.0
"""Values may be so many times larger on other inputs than on those that were tried."""

_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True)
class Reduced:
    """The model in the reduced precision, its types inferred, and what was done."""

    model: Model
    report: PrecisionReport
    io_types: tuple[IoType, ...]


def reduce_precision(
    model: Model,
    fmt: Format,
    *,
    keep: Sequence[str] = (),
    rewrites: Sequence[Rewrite] = (),
    seen: Mapping[str, float] = _NOTHING,
    reduced_io: bool = False,
    decided: Mapping[str, str] | None = None,
    target: Target = TENSORRT,
    fp16_sums: bool = False,
) -> Reduced:
    """The float32 nodes of a model in `fmt`, as far as they bear it. Values of other types stay as they are.

    model:      the graph that TensorRT gets, types inferred.
    keep:       --keep-fp32: names of nodes, patterns, operators.
    rewrites:   what nodes of the original became, whose names `keep` may use.
    seen:       largest magnitude of values in a float32 run, by name (converter/rewrite/precision/observe.py).
    reduced_io: whether float32 inputs and outputs of the model get the type too.
    decided:    by node, why it stays in float32, from the report of an earlier reduction, which is done again: no other
        node stays for reasons of its own, and `keep` and `seen` are not asked.
    target:     the TensorRT that gets the graph: how many products a reduced node may sum
        (converter/rewrite/precision/sums.py).
    fp16_sums:  whether products of float16 may be summed in float16, any number of them.
    UsageError: `keep` names nothing. ConversionError: an old opset, which knows no bfloat16, that
    onnx cannot convert.
    """
    with collector_paused():
        whole = inline(model, frozenset(all_functions(model)))
        if whole is not model:
            whole = infer_shapes(whole)
        whole = _in_opset(whole, fmt)
        draft = Draft(whole)
        order = list(_all_nodes(draft.root))
        _name_all(order)
        asked = kept_by_user(keep, ((n.proto.name, _kind(n)) for n in order if not is_cast(n)), rewrites)
        if decided is not None:
            asked = dict(decided)
        with closing(Converted(whole, T.FLOAT)) as store:
            folded = fold_affine(draft, fmt, asked, store)
            if folded:
                whole = store.files().with_proto(draft.model().proto)
                draft = Draft(whole)
                order = list(_all_nodes(draft.root))
        ports = {n: p for n in order if not _typed(n) and (p := reducible_ports(n, fmt.elem))}
        longest = None if fp16_sums else longest_sum(target, fmt)
        judged = Judge(fmt, asked, seen, fmt.largest / MARGIN, decided is not None, longest).judge(
            order, ports
        )
        flow = flow_of(order, ports, reduced_io)
        reduced = assign(order, ports, judged, flow, reduced_io)
        with closing(Converted(whole, fmt.elem)) as weights:
            writer = Writer(draft, fmt, ports, reduced, weights, reduced_io)
            writer.write()
            written = draft.model().proto
            result = infer_shapes(weights.files().with_proto(written))
    kept = tuple(_kept(order, judged))
    report = PrecisionReport(
        precision=fmt.name,
        reduced=sum(reduced.values()),
        kept=kept,
        beside=sum(1 for n, wish in judged.items() if wish.wish is Wish.EITHER and not reduced[n]),
        casts=writer.casts,
        weights=weights.count,
        seen=bool(seen),
        folded=folded,
    )
    return Reduced(result, report, _io_types(whole, result, fmt) if reduced_io else ())


def _in_opset(model: Model, fmt: Format) -> Model:
    """The model in an opset that knows the type: in Cast, and in Q/DQ, which otherwise stay in float32 between Casts."""
    if fmt is BF16:
        model = at_least(model, BF16_OPSET)
    quantised = any(n.op_type in _QDQ for graph in all_graphs(model.proto.graph) for n in graph.node)
    if not quantised:
        return model
    try:
        return at_least(model, QDQ_OPSET)
    except ConversionError:  # right all the same: only slower
        return model


def _typed(node: Node) -> bool:
    """Casts and constants have the type that others ask for; what enters and leaves graphs inside nodes is float32."""
    return is_cast(node) or (not node.domain and node.op_type in ("Constant", *INTERFACES))


def _all_nodes(scope: Scope) -> Iterator[Node]:
    """Every node, those of its graphs behind it: in the order of evaluation."""
    for node in scope.nodes:
        yield node
        for inner in node.scopes:
            yield from _all_nodes(inner)


def _name_all(order: Sequence[Node]) -> None:
    """Reports speak of nodes by their names: those that have none, or share one, get one."""
    names = order[0].scope.draft.names if order else None
    for node in order:
        assert names is not None  # there is a node
        if not node.proto.name or names.nodes[node.proto.name] > 1:
            wanted = node.proto.name or next((name for name in node.outputs if name), node.op_type)
            node.proto.name = names.node(wanted)


def _kind(node: Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _kept(order: Sequence[Node], judged: Mapping[Node, Judgement]) -> Iterator[Kept]:
    for node in order:
        reason = judged[node].reason if node in judged else foreign(node)
        if reason:
            yield Kept(node.proto.name, _kind(node), reason)


def _io_types(before: Model, after: Model, fmt: Format) -> tuple[IoType, ...]:
    graph = after.proto.graph
    now = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    return tuple(
        IoType(value.name, "float32", fmt.name)
        for value in (*before.proto.graph.input, *before.proto.graph.output)
        if now[value.name] == fmt.elem and value.type.tensor_type.elem_type != fmt.elem
    )
