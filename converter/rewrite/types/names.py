"""Names that nothing in a model has yet, and what graphs say of the types of their values."""

from __future__ import annotations

import onnx

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.scopes import all_graphs
from trtsmith.importers.registry import normalise_domain


class Names(FreshNames):
    """The names of a model. opset: of ONNX's own domain, as it imports it."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        super().__init__()
        self.opset = next((o.version for o in proto.opset_import if not normalise_domain(o.domain)), 1)
        for graph in all_graphs(proto.graph):
            self.take(value.name for value in (*graph.input, *graph.initializer))
            self.take(tensor.values.name for tensor in graph.sparse_initializer)
            for node in graph.node:
                self.take(node.output)
                self.nodes[node.name] += 1


def element_type(type_: onnx.TypeProto) -> int:
    """Of a tensor, or of the tensors in a sequence or optional; 0 if unknown."""
    while type_.WhichOneof("value") in ("sequence_type", "optional_type"):
        type_ = getattr(type_, str(type_.WhichOneof("value"))).elem_type
    return int(type_.tensor_type.elem_type)


def element_types(graph: onnx.GraphProto) -> dict[str, int]:
    """By name, the element types of a graph's own values, as inference left them."""
    types = {v.name: element_type(v.type) for v in (*graph.value_info, *graph.output, *graph.input)}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}
