"""ONNX statements for one node, gathered piece by piece with the arrays that they read."""

from __future__ import annotations

import json

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.statement_writer import statements

FLOAT, INT32 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32


class Lines:
    """Statements in order. Values are named by whoever writes them; a name may be written once."""

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self._lines: list[str] = []
        self._values: dict[str, np.ndarray | str] = {}

    def add(self, text: str) -> None:
        self._lines.append(text)

    def bind(self, name: str, value: np.ndarray | str) -> str:
        """A name for a constant, or for a value of the graph that is no input of the node."""
        self._values[name] = value
        return name

    def op(self, result: str, op_type: str, *inputs: str, attributes: str = "") -> str:
        """One statement; gives back the name of its result."""
        self.add(f"{result} = {op_type} {attributes} ({', '.join(inputs)})")
        return result

    def cast(self, result: str, data: str, to: int) -> str:
        return self.op(result, "Cast", data, attributes=f"<to = {to}>")

    def number(self, result: str, value: float) -> str:
        """A float32 scalar."""
        return self.bind(result, np.array(value, np.float32))

    def nodes(self) -> list[onnx.NodeProto]:
        return statements(self.node, "\n".join(self._lines), **self._values)


def attributes_text(node: NodeView, names: tuple[str, ...]) -> str:
    """Those of the node's own attributes, numbers, strings and lists of them, as ONNX text."""
    parts = []
    for name in names:
        if node.given(name):
            value = node.attributes[name]
            parts.append(f"{name} = {json.dumps(value)}")
    return f"<{', '.join(parts)}>" if parts else ""
