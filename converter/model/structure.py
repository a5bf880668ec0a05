"""Checks a graph's structure, one producer for each value and no cycles, and sorts its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from trtsmith.importers.problem import Problem

_AGAIN = "export the model again, or correct the graph"


def check_structure(proto: onnx.ModelProto, file: str) -> Iterator[Problem]:
    """Reports values without a producer or with two, cycles, and graphs without outputs.

    Nodes need not be sorted: `sort_nodes` does it, as onnxruntime and TensorRT do. Linear in the size of the model.
    """
    if not proto.graph.output:
        yield Problem("The model has no output.", file, "a graph with outputs", _AGAIN)
    yield from _check_graph(proto.graph, file, frozenset())
    for function in proto.functions:
        where = f"{file}: function {function.domain}.{function.name}"
        yield from _check_nodes(function.node, set(function.input), function.output, where)


def _check_graph(graph: onnx.GraphProto, where: str, outer: frozenset[str]) -> Iterator[Problem]:
    given = {tensor.name for tensor in graph.initializer}
    given |= {tensor.values.name for tensor in graph.sparse_initializer}
    for kind, values in (("inputs", graph.input), ("outputs", graph.output)):
        for name, count in Counter(value.name for value in values).items():
            if count > 1 or not name:
                what = (
                    f"{count} {kind} are called {name[:200]!r}."
                    if name
                    else f"One of the {kind} has no name."
                )
                yield Problem(what, where, "a unique name for each", _AGAIN)
    given |= {value.name for value in graph.input}
    outputs = [value.name for value in graph.output]
    yield from _check_nodes(graph.node, given, outputs, where, outer)


def _check_nodes(
    nodes: Sequence[onnx.NodeProto],
    given: set[str],
    outputs: Sequence[str],
    where: str,
    outer: frozenset[str] = frozenset(),
) -> Iterator[Problem]:
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers or name in given:
                first = _describe(nodes[makers[name]]) if name in makers else "an input or initializer"
                what = f"The value {name[:200]!r} has two sources: {first} and {_describe(node)}."
                yield Problem(what, where, "one node, input or initializer for each value", _AGAIN)
            makers.setdefault(name, index)
    known = outer | given | set(makers)
    for node in nodes:
        for name in node.input:
            if name and name not in known:
                what = f"No node computes the value {name[:200]!r} that it reads."
                place = f"{where}: {_describe(node)}"
                yield Problem(what, place, "a node output, an initializer or an input", _AGAIN)
    for name in outputs:
        if name and name not in known:
            what = f"No node computes the output {name[:200]!r}."
            yield Problem(what, where, "an output of a node", _AGAIN)
    for node in nodes:
        for graph in _subgraphs(node):
            yield from _check_graph(graph, f"{where}: {_describe(node)}", frozenset(known))
    yield from _check_circles(nodes, makers, where)


def _check_circles(nodes: Sequence[onnx.NodeProto], makers: dict[str, int], where: str) -> Iterator[Problem]:
    try:
        TopologicalSorter(dict(enumerate(_needs(nodes, makers)))).prepare()
    except CycleError as error:
        circle = error.args[1][:-1]  # the first once more
        names = ", ".join(_describe(nodes[i]) for i in circle[:4]) + ("..." if len(circle) > 4 else "")
        yield Problem("The graph has a cycle.", f"{where}: {names}", "a graph without cycles", _AGAIN)


def _needs(nodes: Sequence[onnx.NodeProto], makers: Mapping[str, int]) -> list[dict[int, None]]:
    """For each node, the nodes that make its inputs."""
    return [dict.fromkeys(makers[name] for name in _taken(node) if name in makers) for node in nodes]


def sort_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Sorts the nodes of an acyclic graph and its subgraphs topologically, as ONNX requires.

    In place. Makers that are late go ahead of their first reader; else the order stays as it is.
    """
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = _needs(graph.node, makers)
    if any(max(before, default=-1) > index for index, before in enumerate(needs)):
        places = {index: place for place, index in enumerate(_sorted(needs))}
        graph.node.sort(
            key=lambda node: max((places[makers[n]] for n in node.output if n), default=len(places))
        )
    for node in graph.node:
        for inner in _subgraphs(node):
            sort_nodes(inner)


def _sorted(needs: Sequence[Iterable[int]]) -> Iterator[int]:
    done: set[int] = set()
    for index in range(len(needs)):
        waiting = [index]
        while waiting:
            missing = [before for before in needs[waiting[-1]] if before not in done]
            waiting += reversed(missing)
            if not missing and (ready := waiting.pop()) not in done:
                done.add(ready)
                yield ready


def _taken(node: onnx.NodeProto) -> Iterator[str]:
    """The values that a node reads, including those that its subgraphs read from outside."""
    yield from node.input
    for graph in _subgraphs(node):
        inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        inside |= {name for inner in graph.node for name in inner.output}
        for inner in graph.node:
            yield from (name for name in _taken(inner) if name not in inside)
        yield from (value.name for value in graph.output if value.name not in inside)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _describe(node: onnx.NodeProto) -> str:
    return f"node {(node.name or ', '.join(node.output))[:200]!r} ({node.op_type[:200]})"
