"""Puts an Identity before every input of some nodes: TensorRT then does not fuse them with what comes before."""

from __future__ import annotations

import onnx
from onnx import helper

from trtsmith.converter.convert.workarounds.refused_graph import RefusedGraph
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model


def with_identities(graph: RefusedGraph) -> Model | None:
    """Before inputs that nodes make; None where there is no such input."""
    proto = graph.copy()
    made = {name for node in proto.graph.node if node.op_type != "Constant" for name in node.output if name}
    fresh = FreshNames.of(proto)
    nodes: list[onnx.NodeProto] = []
    done = False
    for node in proto.graph.node:
        if graph.concerns(node):
            for index, name in enumerate(node.input):
                if name in made:
                    apart = fresh.value(f"{name}/apart")
                    nodes.append(helper.make_node("Identity", [name], [apart], name=apart))
                    node.input[index] = apart
                    done = True
        nodes.append(node)
    if not done:
        return None
    nodes = [_copied(node) for node in nodes]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return infer_shapes(graph.model.with_proto(proto))


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    return copied
