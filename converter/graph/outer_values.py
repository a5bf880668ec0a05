"""Finds the values of enclosing graphs that a node reads."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from trtsmith.converter.graph.walk import subgraphs


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the values that the node or its subgraphs read; a name may repeat."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        yield from free_names(graph)


def free_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Lists the values that a subgraph reads from enclosing graphs."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        yield from (name for name in read_by(node) if name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name not in own)
