"""Writing nodes one after the other: each call gives the name of the value that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.rewrite.engine.node_rule import constant_node
from trtsmith.importers.dtypes import numpy_dtype


class Emitter:
    """Nodes for one of the model's graphs. `base` names what is written next.

    nodes: what was written so far, and nodes of the graph that stay in between.
    """

    def __init__(self, whole: Graph) -> None:
        self.nodes: list[Node | onnx.NodeProto] = []
        self.base = "types"
        self.whole = whole
        self._constants: dict[tuple[str, bytes], str] = {}

    @property
    def opset(self) -> int:
        return self.whole.opset("")

    def fresh(self, hint: str) -> str:
        return self.whole.names.value(f"{self.base}/{hint}")

    def __call__(self, op_type: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """One node with one output, named `out` or freshly."""
        name = out or self.fresh(op_type)
        node = helper.make_node(op_type, inputs, [name], **attributes)
        self.nodes.append(node)
        return name

    def copied(self, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
        """The same node on other inputs; its outputs are fresh, "" where one is left out."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        outputs = [self.fresh(node.op_type) if name else "" for name in node.output]
        copy.input.extend(inputs)
        copy.output.extend(outputs)
        self.nodes.append(copy)
        return outputs

    def constant(self, value: float, elem: int) -> str:
        """A scalar; equal ones of a graph are one value."""
        array = np.array(value, numpy_dtype(elem))
        key = str(array.dtype), array.tobytes()
        if key not in self._constants:
            self._constants[key] = self.fresh("const")
            self.nodes.append(constant_node(self._constants[key], array))
        return self._constants[key]

    def cast(self, value: str, elem: int, out: str = "") -> str:
        return self("Cast", value, out=out, to=elem)

    def where(self, condition: str, then: str, otherwise: str) -> str:
        return self("Where", condition, then, otherwise)

    def integer(self, value: int) -> str:
        return self.constant(value, TensorProto.INT64)

    def number(self, value: float) -> str:
        return self.constant(value, TensorProto.FLOAT)
