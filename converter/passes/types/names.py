"""Names that nothing in a model has yet, and what graphs say of the types of their values."""

from __future__ import annotations

from collections import Counter

import onnx

from converter.passes.scopes import all_graphs
from importers.registry import normalise_domain


class Names:
    """Names of values and nodes that are taken; those that are given out are taken from then on."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.opset = next((o.version for o in proto.opset_import if not normalise_domain(o.domain)), 1)
        self.nodes: Counter[str] = Counter()
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()
        for graph in all_graphs(proto.graph):
            self._taken.update(value.name for value in (*graph.input, *graph.initializer))
            self._taken.update(tensor.values.name for tensor in graph.sparse_initializer)
            for node in graph.node:
                self._taken.update(node.output)
                self.nodes[node.name] += 1

    def value(self, wanted: str) -> str:
        """A value name like `wanted`."""
        name = wanted
        while name in self._taken:
            self._numbers[wanted] += 1
            name = f"{wanted}_{self._numbers[wanted]}"
        self._taken.add(name)
        return name

    def node(self, wanted: str) -> str:
        """A node name like `wanted`."""
        name = wanted
        while self.nodes[name]:
            self._numbers["node " + wanted] += 1
            name = f"{wanted}_{self._numbers['node ' + wanted]}"
        self.nodes[name] += 1
        return name


def element_type(type_: onnx.TypeProto) -> int:
    """Of a tensor, or of the tensors in a sequence or optional; 0 if unknown."""
    while type_.WhichOneof("value") in ("sequence_type", "optional_type"):
        type_ = getattr(type_, str(type_.WhichOneof("value"))).elem_type
    return int(type_.tensor_type.elem_type)


def element_types(graph: onnx.GraphProto) -> dict[str, int]:
    """By name, the element types of a graph's own values, as inference left them."""
    types = {v.name: element_type(v.type) for v in (*graph.value_info, *graph.output, *graph.input)}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}
