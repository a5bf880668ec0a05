"""A graph that a node carries, as nodes in the node's place, once or several times."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.opset_forms import unsqueeze


def inlined(
    graph: onnx.GraphProto, node: NodeView, arguments: Sequence[str] = ()
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The graph's nodes under fresh names, with `arguments` for its inputs, and the names of its outputs' values."""
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializer]
    for made in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(made)
        nodes.append(copy)
    renamed = {value.name: name for value, name in zip(graph.input, arguments, strict=True)}
    renamed |= {name: node.fresh(name) for made in nodes for name in made.output if name}
    for made in nodes:
        rename_values(made, renamed, node.fresh)
    return nodes, [renamed.get(value.name, value.name) for value in graph.output]


def graph_attribute(proto: onnx.NodeProto, name: str) -> onnx.GraphProto:
    graph: onnx.GraphProto = next(a.g for a in proto.attribute if a.name == name)
    return graph


def stacked(node: NodeView, row: list[str], result: str, axis: int) -> list[onnx.NodeProto]:
    """The values `row`, one for each run, along a new axis; `result` names an output as in NodeView.statements."""
    names = {f"part_{i}": name for i, name in enumerate(row)}
    lines = [unsqueeze(f"row_{i}", part, [axis], node.opset) for i, part in enumerate(names)]
    lines.append(f"{result} = Concat <axis = {axis}> ({', '.join(f'row_{i}' for i in range(len(row)))})")
    return node.statements("\n".join(lines), **names)
