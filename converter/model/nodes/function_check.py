"""Checks a model's functions: unique, without recursion, and small when inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import FunctionId, normalise_domain

_AGAIN = "export the model again, or inline the functions (onnx.inliner) before the model is saved"

_OWN = frozenset({"Constant", "If", "Loop", "Scan", "SequenceMap"})
"""Operators whose attributes hold constants and graphs, by which a graph is read."""

MOST_UNFOLDED = 100_000
"""Nodes of all calls together. onnx, onnxruntime and TensorRT unfold each call; `check` took 8.5 s for 260,000."""

MOST_BYTES = 1 << 27
"""Of all these nodes."""

MOST_DEPTH = 100
"""Functions that call each other in a row: onnx's inference and inliner take no more."""


def check_functions(proto: onnx.ModelProto, file: str) -> Iterator[Problem]:
    """Reports functions without a name, duplicate functions and parameters, and recursion."""
    kinds = [(normalise_domain(f.domain), f.name, f.overload) for f in proto.functions]
    for kind, count in Counter(kinds).items():
        if count > 1 or not kind[1]:
            what = f"{count} functions are called {_shown(kind)!r}." if kind[1] else "A function has no name."
            yield Problem(what, file, "a unique name for each function", _AGAIN)
    for kind in kinds:
        if not kind[0] and kind[1] in _OWN:
            what = (
                f"A function is called {kind[1]!r}, which is an ONNX operator that a function cannot replace."
            )
            yield Problem(what, file, "a function in its own domain", _AGAIN)
    for kind, function in zip(kinds, proto.functions, strict=True):
        for what, names in (("inputs", function.input), ("outputs", function.output)):
            twice = next((name for name, count in Counter(names).items() if count > 1 or not name), None)
            if twice is not None:
                said = (
                    f"Two {what} are called {twice[:200]!r}." if twice else f"One of the {what} has no name."
                )
                yield Problem(said, f"{file}: function {_shown(kind)}", "a unique name for each", _AGAIN)
    calls = {
        kind: Counter(map(_kind, _nodes(function.node)))
        for kind, function in zip(kinds, proto.functions, strict=True)
    }
    if calls:
        bytes_ = {kind: _body_bytes(function) for kind, function in zip(kinds, proto.functions, strict=True)}
        yield from _check_calls(calls, bytes_, Counter(map(_kind, _nodes(proto.graph.node))), file)


def _body_bytes(function: onnx.FunctionProto) -> int:
    """The size of the body when inlined, where node and value names may begin with the function's name."""
    named = len(function.name) * sum(1 + len(node.output) for node in function.node)
    return named + sum(int(node.ByteSize()) for node in function.node)


def _check_calls(
    calls: Mapping[FunctionId, Counter[FunctionId]],
    bytes_: Mapping[FunctionId, int],
    main: Counter[FunctionId],
    file: str,
) -> Iterator[Problem]:
    """Reports recursion, and functions that expand to too many nodes, by counting only. calls: the operators of each
    function's nodes. main: those of the graph.
    """
    order = TopologicalSorter({kind: called.keys() & calls.keys() for kind, called in calls.items()})
    try:
        kinds = list(order.static_order())
    except CycleError as error:
        circle = error.args[1]
        what = f"The function {_shown(circle[0])} calls itself."
        where = f"{file}: {' <- '.join(_shown(kind) for kind in circle[:5])}"
        yield Problem(what, where, "functions without recursion", _AGAIN)
        return
    nodes: dict[FunctionId, int] = {}
    sizes: dict[FunctionId, int] = {}
    depths: dict[FunctionId, int] = {}
    for kind in kinds:
        nodes[kind] = sum(count * (1 + nodes.get(called, 0)) for called, count in calls[kind].items())
        sizes[kind] = bytes_[kind] + sum(
            count * sizes.get(called, 0) for called, count in calls[kind].items()
        )
        depths[kind] = 1 + max((depths.get(called, 0) for called in calls[kind]), default=0)
    unfolded = sum(count * nodes.get(called, 0) for called, count in main.items())
    size = sum(count * sizes.get(called, 0) for called, count in main.items())
    deepest = max(depths, key=depths.__getitem__)
    if unfolded > MOST_UNFOLDED or size > MOST_BYTES:
        shown = f"{unfolded:,}" if unfolded < 10**15 else "more than 10^15"
        what = f"The calls of the model's functions expand to {shown} nodes, of {min(size, 10**18):,} bytes or more."
        expected = f"at most {MOST_UNFOLDED:,} nodes, of {MOST_BYTES:,} bytes"
        yield Problem(what, file, expected, "export the model without functions")
    elif depths[deepest] > MOST_DEPTH:
        what = f"Functions are nested {depths[deepest]} deep."
        where = f"{file}: function {_shown(deepest)}"
        yield Problem(what, where, f"at most {MOST_DEPTH}", "export the model without functions")


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _nodes(graph.node)


def _kind(node: onnx.NodeProto) -> FunctionId:
    return normalise_domain(node.domain), node.op_type, node.overload


def _shown(kind: FunctionId) -> str:
    return "::".join(part[:100] for part in kind if part)
