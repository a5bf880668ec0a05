"""Statements for a replacement, written one after the other: each result gets a name of its own, arrays become constants.

For rules whose text depends on sizes; where the text is fixed, a string for NodeView.statements reads better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine import opset_forms
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.importers.dtypes import NUMBERS, numpy_dtype

TO_END = np.iinfo(np.int64).max
"""As the end of a slice: all that is there."""


class Writer:
    """Collects statements for one node. A method that writes gives the name of its result; `result` chooses it."""

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self._lines: list[str] = []
        self._values: dict[str, np.ndarray] = {}
        self._shapes: dict[str, str] = {}
        self._count = 0

    def nodes(self) -> list[onnx.NodeProto]:
        """What was written and is needed. Raises onnx.parser.ParseError, or LookupError for a name that nothing makes."""
        written = self.node.statements("\n".join(self._lines), **self._values)
        needed = {name for name in self.node.outputs if name}
        kept = []
        for node in reversed(written):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        return kept[::-1]

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def op(self, call: str, result: str = "") -> str:
        """`call` is the right side of a statement: "Add (x0, x1)"."""
        result = result or self.name()
        self._lines.append(f"{result} = {call}")
        return result

    def do(self, op_type: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """One node with one result. Attributes: numbers, strings, and lists of them."""
        given = ", ".join(f"{name} = {attribute_text(value)}" for name, value in attributes.items())
        return self.op(f"{op_type} {f'<{given}>' if given else ''} ({', '.join(inputs)})", result)

    def many(self, op_type: str, inputs: Sequence[str], results: Sequence[str], **attributes: Any) -> None:
        """One node with these results, "" for those that nobody reads."""
        given = ", ".join(f"{name} = {attribute_text(value)}" for name, value in attributes.items())
        call = f"{op_type} {f'<{given}>' if given else ''} ({', '.join(inputs)})"
        self._lines.append(f"{', '.join(results)} = {call}")

    def const(self, value: np.ndarray) -> str:
        for name, known in self._values.items():
            same_kind = known.dtype == value.dtype and known.shape == value.shape
            if same_kind and known.tobytes() == value.tobytes():  # 0.0 and -0.0 are two
                return name
        name = self.name("c")
        self._values[name] = value
        return name

    def ints(self, *values: int) -> str:
        """An int64 vector."""
        return self.const(np.array(values, np.int64))

    def number(self, value: float, dtype: str) -> str:
        """A scalar of an element type, "bfloat16" too."""
        return self.const(np.array(value, numpy_dtype(dtype)))

    def cast(self, data: str, dtype: str, result: str = "") -> str:
        return self.op(f"Cast <to = {NUMBERS[dtype]}> ({data})", result)

    def shape(self, data: str) -> str:
        if data not in self._shapes:
            self._shapes[data] = self.op(f"Shape ({data})")
        return self._shapes[data]

    def size(self, data: str, axis: int) -> str:
        """Length of an axis as int64[1], computed by the graph."""
        return self.op(f"Gather <axis = 0> ({self.shape(data)}, {self.ints(axis)})")

    def scalar(self, vector: str) -> str:
        """A vector of one element as a scalar."""
        return self.op(f"Reshape ({vector}, {self.const(np.zeros(0, np.int64))})")

    def arange(self, count: str) -> str:
        """0, 1, ... as int64; `count`: int64[1]."""
        zero, one = (self.const(np.array(i, np.int64)) for i in (0, 1))
        return self.op(f"Range ({zero}, {self.scalar(count)}, {one})")

    def concat(self, parts: Sequence[str], axis: int = 0, result: str = "") -> str:
        return self.op(f"Concat <axis = {axis}> ({', '.join(parts)})", result)

    def reshape(self, data: str, dims: Sequence[int | str], result: str = "") -> str:
        """`dims`: numbers, and names of int64[1] for those that the graph computes. ONNX's 0 and -1 hold."""
        if all(isinstance(dim, int) for dim in dims):
            target = self.ints(*(dim for dim in dims if isinstance(dim, int)))
        else:
            target = self.concat([self.ints(dim) if isinstance(dim, int) else dim for dim in dims])
        return self.op(f"Reshape ({data}, {target})", result)

    def transpose(self, data: str, order: Sequence[int], result: str = "") -> str:
        return self.op(f"Transpose <perm = {list(order)}> ({data})", result)

    def slice_(
        self,
        data: str,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> str:
        """ValueError: steps in an opset without them."""
        result = self.name()
        self._lines.append(opset_forms.slice_(result, data, starts, ends, axes, self.node.opset, steps))
        return result

    def pad(self, data: str, pads: Sequence[int] | str, value: float = 0.0, dtype: str = "") -> str:
        """Constant padding, begins then ends; a name for pads that the graph computes. `dtype` of data, for a value.

        ValueError: computed pads in an opset that has them as an attribute.
        """
        if not isinstance(pads, str) and not any(pads):
            return data
        if self.node.opset < 11:
            if isinstance(pads, str):
                raise ValueError(f"computed pads in opset {self.node.opset}")
            return self.op(f"Pad <pads = {list(pads)}, value = {float(value)!r}> ({data})")
        target = pads if isinstance(pads, str) else self.ints(*pads)
        filled = f", {self.number(value, dtype)}" if value else ""
        return self.op(f"Pad ({data}, {target}{filled})")

    def reduce(
        self, op_type: str, data: str, axes: Sequence[int] | None, keepdims: bool = True, result: str = ""
    ) -> str:
        result = result or self.name()
        self._lines.append(
            opset_forms.reduce(op_type, result, data, axes, self.node.opset, keepdims=keepdims)
        )
        return result

    def squeeze(self, data: str, axes: Sequence[int], result: str = "") -> str:
        result = result or self.name()
        self._lines.append(opset_forms.squeeze(result, data, axes, self.node.opset))
        return result

    def unsqueeze(self, data: str, axes: Sequence[int], result: str = "") -> str:
        result = result or self.name()
        self._lines.append(opset_forms.unsqueeze(result, data, axes, self.node.opset))
        return result


def attribute_text(value: Any) -> str:
    """An attribute's value in ONNX text."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(attribute_text(item) for item in value)}]"
    return repr(float(value)) if isinstance(value, float) else str(int(value))
