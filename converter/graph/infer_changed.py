"""Infers types in a model that a whole-model tool changed: only of new nodes, and of those after them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain


def infer_changed(model: Model, before: Model) -> Model:
    """Returns the model with inferred types. `before`: the typed model that it was made from.

    A value keeps its type if the same operator makes it, alone. The rest is inferred, as are the nodes behind whose types
    follow from it.
    """
    known = set(_nodes(before.proto))
    proto = model.copied()
    new = {node for node in _nodes(proto) if node not in known or len(node[2]) > 1}
    graph = proto.graph
    kept = {name for node in _nodes(proto) if node not in new for name in node[2]}
    stated = {value.name for value in graph.value_info}
    graph.value_info.extend(
        value for value in before.proto.graph.value_info if value.name in kept and value.name not in stated
    )
    draft = Graph(model.with_proto(proto))
    draft.stale.update((node, None) for node in draft.nodes() if (*node.kind, node.outputs) in new)
    draft.infer()
    return draft.model()


def _nodes(proto: onnx.ModelProto) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Domain, operator and results of every node."""
    for graph in all_graphs(proto.graph):
        for node in graph.node:
            yield normalise_domain(node.domain), node.op_type, tuple(node.output)
