"""Computes both branches of an If, and takes from each result what the condition says."""

from __future__ import annotations

import onnx
from onnx import helper

from trtsmith.converter.convert.workarounds.refused_graph import RefusedGraph
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes, value_shapes
from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import all_graphs, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

_NOT_TWICE = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators that give something else each time."""


def with_inlined_ifs(graph: RefusedGraph) -> Model | None:
    """The If nodes that are concerned, both of whose branches give tensors of one known shape; None without any."""
    proto = graph.copy()
    inferred = infer_shapes(graph.model).proto
    fresh = FreshNames.of(proto)
    nodes: list[onnx.NodeProto] = []
    done = False
    for number, node in enumerate(proto.graph.node):
        if node.op_type == "If" and not normalise_domain(node.domain) and graph.concerns(node):
            same = _gives_one_shape(inferred.graph.node[number], inferred)
            made = _inlined(node, fresh, proto.graph) if same else None
            if made is not None:
                nodes += made
                done = True
                continue
        nodes.append(node)
    if not done:
        return None
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return infer_shapes(graph.model.with_proto(proto))


def _gives_one_shape(node: onnx.NodeProto, whole: onnx.ModelProto) -> bool:
    """Whether both branches are known to give the same sizes. node: of `whole`, its types inferred."""
    found = []
    for branch in subgraphs(node):
        alone = onnx.ModelProto(graph=branch)  # branches may give values the same names
        shapes = {**value_shapes(whole), **value_shapes(alone)}
        found.append([shapes.get(value.name) for value in branch.output])
    return found[0] == found[1] and all(shape is not None and None not in shape for shape in found[0])


def _inlined(
    node: onnx.NodeProto,
    fresh: FreshNames,
    graph: onnx.GraphProto,
) -> list[onnx.NodeProto] | None:
    branches = {a.name: a.g for a in node.attribute}
    then, other = branches["then_branch"], branches["else_branch"]
    if any(n.op_type in _NOT_TWICE for g in (then, other) for part in all_graphs(g) for n in part.node):
        return None
    made: list[onnx.NodeProto] = []
    results = []
    for branch in (then, other):
        names = {n: fresh.value(n) for n in _own_names(branch)}
        for inner in branch.node:
            copied = onnx.NodeProto()
            copied.CopyFrom(inner)
            rename_values(copied, names, fresh.value)
            made.append(copied)
        for tensor in branch.initializer:
            held = onnx.TensorProto()
            held.CopyFrom(tensor)
            held.name = names[tensor.name]
            graph.initializer.append(held)
        results.append([names.get(value.name, value.name) for value in branch.output])
    for index, name in enumerate(node.output):
        if name:
            where = [node.input[0], results[0][index], results[1][index]]
            made.append(helper.make_node("Where", where, [name], name=f"{node.name or name}/chosen_{index}"))
    return made


def _own_names(graph: onnx.GraphProto) -> list[str]:
    return [
        *(tensor.name for tensor in graph.initializer),
        *(name for node in graph.node for name in node.output if name),
    ]
