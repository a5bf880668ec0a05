"""Checks the functions that a model brings: none calls itself, and each is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

_AGAIN = "export the model again, or inline the functions where it is made"

_OWN = frozenset({"Constant", "If", "Loop", "Scan", "SequenceMap"})
"""Operators whose attributes hold constants and graphs, by which a graph is read."""

Kind = tuple[str, str, str]
"""Domain, name and overload."""


def check_functions(proto: onnx.ModelProto, file: str) -> Iterator[Problem]:
    """Functions without a name, two of one name, parameters of one name, and functions that call themselves."""
    kinds = [(normalise_domain(f.domain), f.name, f.overload) for f in proto.functions]
    for kind, count in Counter(kinds).items():
        if count > 1 or not kind[1]:
            what = f"{count} functions are called {_shown(kind)!r}." if kind[1] else "A function has no name."
            yield Problem(what, file, "a name of its own for each function", _AGAIN)
    for kind in kinds:
        if not kind[0] and kind[1] in _OWN:
            what = f"A function is called {kind[1]!r}, as an operator of ONNX that no function can stand for."
            yield Problem(what, file, "a function in a domain of its own", _AGAIN)
    for kind, function in zip(kinds, proto.functions, strict=True):
        for what, names in (("inputs", function.input), ("outputs", function.output)):
            twice = next((name for name, count in Counter(names).items() if count > 1 or not name), None)
            if twice is not None:
                said = (
                    f"Two {what} are called {twice[:200]!r}." if twice else f"One of the {what} has no name."
                )
                yield Problem(said, f"{file}: function {_shown(kind)}", "a name of its own for each", _AGAIN)
    calls = {
        kind: {_kind(node) for node in _nodes(function.node)} & set(kinds)
        for kind, function in zip(kinds, proto.functions, strict=True)
    }
    yield from _check_recursion(calls, file)


def _check_recursion(calls: Mapping[Kind, set[Kind]], file: str) -> Iterator[Problem]:
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        circle = error.args[1]
        what = f"The function {_shown(circle[0])} calls itself."
        where = f"{file}: {' <- '.join(_shown(kind) for kind in circle[:5])}"
        yield Problem(what, where, "functions that do not call each other in a circle", _AGAIN)


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _nodes(graph.node)


def _kind(node: onnx.NodeProto) -> Kind:
    return normalise_domain(node.domain), node.op_type, node.overload


def _shown(kind: Kind) -> str:
    return "::".join(part[:100] for part in kind if part)
