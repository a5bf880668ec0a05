"""Runs the passes for custom operators in GraphSurgeon, and takes their results into our graph.

A pass that looks at one node at a time gets a graph of just such nodes, with what is known of the values that they read:
GraphSurgeon takes 0.2 ms for a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import onnx

from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.graph.write_back import up_to_date
from trtsmith.converter.rewrite.engine.records import Kinds, Pass, Record, Rewrite
from trtsmith.importers.registry import normalise_domain

if TYPE_CHECKING:
    from trtsmith.converter.graph.graph import Graph
    from trtsmith.converter.graph.node import Node
    from trtsmith.converter.graph.scope import Scope

_NONE: Kinds = frozenset()


def replace_custom_operators(graph: Graph, passes: Sequence[Pass], left: Kinds = _NONE) -> list[Record]:
    """Edits the graph and returns records. Types are inferred before and afterwards.

    left: nodes of these kinds stay as they are.
    """
    records: list[Record] = []
    for one in passes:
        if one.takes is None:
            records += _on_the_whole(graph, one)
        else:
            records += _on_nodes(graph, one, {kind for kind in graph.kinds() - left if one.takes(*kind)})
    return records


def _on_the_whole(graph: Graph, one: Pass) -> list[Record]:
    from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs  # only models with them pay

    model = graph.model()
    surgeon = to_gs(model)
    records = list(one.apply(surgeon))
    if any(isinstance(record, Rewrite) for record in records):
        graph.become(infer_shapes(from_gs(surgeon, model)))
    return records


def _on_nodes(graph: Graph, one: Pass, kinds: Set[tuple[str, str]]) -> list[Record]:
    names = _names(graph, kinds)
    records: list[Record] = []
    for scope in list(graph.scopes()):
        nodes = [node for node in scope.nodes if node in names and not node.gone and any(node.outputs)]
        if nodes:
            records += _in_scope(scope, nodes, names, one)
    graph.infer()
    return records


def _names(graph: Graph, kinds: Set[tuple[str, str]]) -> dict[Node, str]:
    """A unique name for each node of these kinds; its own if no earlier node has it."""
    taken = {node.name for node in graph.nodes() if node.kind not in kinds}
    names: dict[Node, str] = {}
    uses: Counter[str] = Counter()
    for scope in graph.scopes():
        for index, node in enumerate(scope.nodes):
            if node.kind in kinds:
                name = wanted = node.name or f"{node.op_type}_{index}"
                while name in taken:
                    uses[wanted] += 1
                    name = f"{wanted}_{uses[wanted]}"
                taken.add(name)
                names[node] = name
    return names


def _in_scope(scope: Scope, nodes: Sequence[Node], names: dict[Node, str], one: Pass) -> list[Record]:
    """Applies the pass to these nodes of one graph."""
    from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs  # only models with them pay

    part = scope.whole.source.with_proto(_model_of(scope, nodes, names))
    surgeon = to_gs(part)
    records = list(one.apply(surgeon))
    replaced = {record.node for record in records if isinstance(record, Rewrite)}
    for node in nodes:
        if names[node] not in replaced and names[node] != node.name:
            node.rename(names[node])  # so that the plan finds it by the name in the record
    if replaced:
        made = from_gs(surgeon, part).proto.graph
        _take_over(scope, [(node, names[node] in replaced) for node in nodes], made)
    return records


def _model_of(scope: Scope, nodes: Sequence[Node], names: dict[Node, str]) -> onnx.ModelProto:
    """A model of the nodes and of the values that they read: constants, and values of known types."""
    graph = scope.whole
    proto = onnx.ModelProto(ir_version=graph.source.proto.ir_version)
    proto.opset_import.extend(onnx.OperatorSetIdProto(domain=d, version=v) for d, v in graph.opsets.items())
    part = proto.graph
    part.name = "custom operators"
    made = {name for node in nodes for name in node.outputs}
    for name in dict.fromkeys(name for node in nodes for name in node.reads() if name not in made):
        holder = scope.holder(name)
        if holder is None:
            continue
        maker = holder.producers.get(name)
        if name in holder.tensors:
            part.initializer.append(holder.tensors[name])
        elif maker is not None and maker.op_type == "Constant" and not maker.domain:
            part.node.append(maker.proto)
        elif name in holder.types:
            part.input.append(holder.types[name])
    for node in nodes:
        part.node.append(up_to_date(node))
        part.node[-1].name = names[node]
        for name in _wanted(node):  # GraphSurgeon leaves out what nobody reads
            part.output.append(scope.types.get(name) or onnx.ValueInfoProto(name=name))
    return proto


def _wanted(node: Node) -> list[str]:
    """The outputs with readers; all of them if none has any."""
    made = [name for name in node.outputs if name]
    return [name for name in made if node.scope.whole.used[name] > 0] or made


def _take_over(scope: Scope, nodes: Iterable[tuple[Node, bool]], made: onnx.GraphProto) -> None:
    """Replaces the nodes by the new ones of `made`, which are in the same order."""
    graph = scope.whole
    nodes = list(nodes)
    constants = {tensor.name: tensor for tensor in made.initializer}
    left = _needed(made, {name for node, _ in nodes for name in _wanted(node)})
    replacements: dict[Node, list[Node]] = {}
    for node, is_replaced in nodes:
        missing = set(_wanted(node))
        protos = []
        while missing and left:
            protos.append(left.pop())
            missing.difference_update(protos[-1].output)
        if is_replaced:
            _name_apart(node, protos, constants)
            scope.leave(node)
            replacements[node] = [scope.enter(proto) for proto in protos]
            for proto in protos:
                if normalise_domain(proto.domain):
                    graph.import_domain(proto.domain)
    scope.replace(replacements)
    for node in replacements:
        for name in node.inputs:
            if name and graph.used[name] <= 0:
                scope.drop_tensor(name)


def _needed(made: onnx.GraphProto, wanted: set[str]) -> list[onnx.NodeProto]:
    """The nodes behind the wanted values, last first. An alias may also make outputs without readers."""
    needed = []
    for node in reversed(made.node):
        if wanted.isdisjoint(node.output) or (node.op_type == "Constant" and not node.domain):
            continue
        wanted.update(values_read(node))
        needed.append(node)
    return needed


def _name_apart(
    node: Node, protos: Sequence[onnx.NodeProto], constants: Mapping[str, onnx.TensorProto]
) -> None:
    """Gives new values unused names, and adds the constants among them to the graph."""
    scope, names = node.scope, node.scope.whole.names
    renamed = {name: name for name in (*node.inputs, *node.outputs)}
    for proto in protos:
        for position, name in enumerate(proto.input):
            if name not in renamed:  # no node has made it
                renamed[name] = names.value(name)
                constant = onnx.TensorProto()
                constant.CopyFrom(constants[name])
                constant.name = renamed[name]
                scope.set_tensor(constant)
            proto.input[position] = renamed[name]
        for position, name in enumerate(proto.output):
            if name not in renamed:
                renamed[name] = names.value(name)
            proto.output[position] = renamed[name]
