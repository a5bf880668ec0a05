"""Writes plugin nodes of ours in standard operators, as their definitions say them."""

from __future__ import annotations

from trtsmith.converter.convert.workarounds.refused_graph import RefusedGraph
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.model.model import Model
from trtsmith.importers.expansion import ExpansionError, expand_model
from trtsmith.importers.opdef import PLUGIN_NAMESPACE


def with_expanded_plugins(graph: RefusedGraph) -> Model | None:
    """The plugin nodes that are concerned; None without any, or where they cannot be written."""
    proto = graph.copy()
    others = {}
    found = False
    for number, node in enumerate(proto.graph.node):
        if node.domain != PLUGIN_NAMESPACE:
            continue
        if graph.concerns(node):
            found = True
        else:  # kept from being expanded by a name that no definition has
            others[number] = node.op_type
    if not found:
        return None
    hidden = "kept::"
    for number, op_type in others.items():
        proto.graph.node[number].op_type = hidden + op_type
    try:
        expanded = expand_model(proto, value_dtypes(infer_shapes(graph.model).proto))
    except ExpansionError:
        return None
    for node in expanded.graph.node:
        if node.op_type.startswith(hidden):
            node.op_type = node.op_type.removeprefix(hidden)
    if others and PLUGIN_NAMESPACE not in {o.domain for o in expanded.opset_import}:
        expanded.opset_import.add(domain=PLUGIN_NAMESPACE, version=1)
    return infer_shapes(graph.model.with_proto(expanded))
