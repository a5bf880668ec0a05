"""Inserts a DequantizeLinear with scale 1 and a Cast before readers of int8 constants, which changes no number.

TensorRT-RTX 1.7.1 refuses a constant of int8 that any other node reads ("Quantized constant ... is only allowed before DQ").
With these two it keeps the constant in its byte for each element and fuses both with the reader: an engine with Gather from
a table of 100,000 x 64 has 6.5 MB, where the table in float16 or int32 makes it 12.9 or 25.7 MB.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.engine.records import Rewrite

NAME = "byte-constants"

OPSET = 10
"""First opset with DequantizeLinear."""


def dequantize_constants(graph: Graph) -> tuple[Rewrite, ...]:
    """Edits the graph, with a record for each reader. Types are inferred before and afterwards."""
    if graph.opset("") < OPSET or T.INT8 not in graph.elem_types():
        return ()
    work = _ByteConstants(graph)
    for scope in list(graph.scopes()):
        work.scope(scope)
    if work.records:
        graph.infer()
    return tuple(work.records)


class _ByteConstants:
    def __init__(self, graph: Graph) -> None:
        self.records: list[Rewrite] = []
        self._graph = graph
        self._scopes: list[Scope] = []

    def scope(self, scope: Scope) -> None:
        self._scopes = list(self._graph.scopes())
        first: list[onnx.NodeProto] = []
        behind: dict[Node, list[onnx.NodeProto]] = {}
        for name in [n for n, tensor in scope.tensors.items() if tensor.data_type == T.INT8]:
            held = self._fresh(name, "int8")
            made = self._through(scope, name, held)
            if made:
                tensor = self._graph.adopt_tensor(scope.tensors[name], held)
                scope.drop_tensor(name)
                scope.set_tensor(tensor)
                first += made
        for node in list(scope.nodes):
            if node.op_type == "Constant" and not node.domain and scope.elem_type(node.outputs[0]) == T.INT8:
                held = self._fresh(node.outputs[0], "int8")
                made = self._through(scope, node.outputs[0], held)
                if made:
                    scope.rewire(node, outputs=[held])
                    behind[node] = made
        if first or behind:
            scope.rebuild([*first, *(item for node in scope.nodes for item in (node, *behind.get(node, ())))])

    def _through(self, scope: Scope, name: str, held: str) -> list[onnx.NodeProto]:
        """Nodes that make `name` of the constant, which is to be called `held`; none where TensorRT takes it as it is.

        Those that TensorRT lets read the constant read `held`; Casts of it need no Cast back before them.
        """
        readers = [n for n in dict.fromkeys(self._graph.readers_of(name)) if n.scope.holder(name) is scope]
        refused = [node for node in readers if not _takes(node, name)]
        returned = any(name in one.outputs and one.holder(name) is scope for one in self._scopes)
        if not refused and not returned:
            return []
        names = self._graph.names
        label = names.node(f"{name}/DequantizeLinear")
        one, real = self._fresh(name, "one"), self._fresh(name, "float32")
        scale = numpy_helper.from_array(np.array(1, np.float32), one)
        made = [
            helper.make_node("Constant", [], [one], names.node(f"{name}/Constant"), value=scale),
            helper.make_node("DequantizeLinear", [held, one], [real], label),
        ]
        for node in readers:
            other = held if node not in refused else real if _casts(node) else name
            node.scope.rewire(node, inputs=[other if n == name else n for n in node.inputs])
        if returned or not all(map(_casts, refused)):
            made.append(helper.make_node("Cast", [real], [name], names.node(f"{name}/Cast"), to=T.INT8))
        what = f"its int8 constant {name!r} through DequantizeLinear, as TensorRT wants it"
        called = [proto.name for proto in made]
        for node in refused:
            shown = "::".join(part for part in node.kind if part)
            label = self._graph.unique_name(node)
            node.rename(label)
            self.records.append(Rewrite(label, shown, NAME, what, made=(label, *called)))
        return made

    def _fresh(self, name: str, hint: str) -> str:
        return self._graph.names.value(f"{name}/{hint}")


def _casts(node: Node) -> bool:
    return node.op_type == "Cast" and not node.domain


def _takes(node: Node, name: str) -> bool:
    """Whether TensorRT lets the node read a constant of int8: as what is dequantized, as a zero point, or in a plugin."""
    if node.domain or node.op_type == "DequantizeLinear":
        return True
    return node.op_type == "QuantizeLinear" and name != node.inputs[0]
