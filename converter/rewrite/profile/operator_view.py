"""Presents an ONNX node to the functions that propagate sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto

from trtsmith.converter.graph.node import Node
from trtsmith.converter.model.tensors import MOST_DIMENSIONS
from trtsmith.converter.rewrite.engine.node_rule import schema_defaults
from trtsmith.converter.rewrite.profile.known_value import FLOATS, UNKNOWN, Dims, KnownValue, known
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeAlgebra, SizeExpr, constant


class OperatorView:
    """A standard ONNX node with the known parts of its inputs.

    algebra: that of the analysis. opset: of ONNX's domain. inputs: UNKNOWN for one that is left out.
    """

    def __init__(self, node: Node, algebra: SizeAlgebra, inputs: Sequence[KnownValue]) -> None:
        self.node = node
        self.algebra = algebra
        self.inputs = inputs
        self._attributes: dict[str, Any] | None = None

    @property
    def opset(self) -> int:
        return self.node.scope.whole.opset("")

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns the node's attribute, else the schema's default, else the given one."""
        if self._attributes is None:
            own = {a.name: onnx.helper.get_attribute_value(a) for a in self.node.proto.attribute}
            self._attributes = {**schema_defaults("", self.node.op_type, self.opset), **own}
        value = self._attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def given(self, index: int) -> bool:
        """Tells whether the input is connected."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def input(self, index: int) -> KnownValue:
        return self.inputs[index] if index < len(self.inputs) else UNKNOWN

    def rank(self, index: int) -> int | None:
        dims = self.input(index).dims
        return None if dims is None else len(dims)

    def ints(self, index: int, attribute: str = "") -> tuple[int, ...] | None:
        """Returns the numbers of an input, or of the attribute that older opsets use; None if unknown."""
        value = self.attribute(attribute) if attribute else None
        if value is not None:
            return tuple(value) if isinstance(value, (list, tuple)) else (value,)
        return self.input(index).numbers()

    def exprs(self, index: int, attribute: str = "") -> list[SizeExpr | None] | None:
        """Returns the same as expressions, which need not be single numbers."""
        value = self.attribute(attribute) if attribute else None
        if value is not None:
            return list(map(constant, value))
        return self.input(index).exprs()

    def elem_type(self, index: int = 0) -> int:
        """Returns the element type of an output, as inferred; that of the first input otherwise."""
        name = self.node.outputs[index] if index < len(self.node.outputs) else ""
        return (self.node.scope.elem_type(name) if name else 0) or self.input(0).elem_type

    def is_float(self, index: int = 0) -> bool:
        return self.elem_type(index) in FLOATS

    def size(self, hint: object, low: int = 0, high: int = MOST) -> SizeExpr:
        """Makes an output size of which only the range is known. hint: tells several sizes of a node apart."""
        return self.algebra.fresh((id(self.node), hint), low, high)

    def sizes(self, count: int, output: int = 0) -> Dims:
        """Makes unknown sizes for a value of this rank. Raises ValueError if the rank is too high to track."""
        if count > MOST_DIMENSIONS:
            raise ValueError(count)
        return tuple(self.size((output, axis)) for axis in range(count))

    def length(self, expr: SizeExpr | None, hint: object) -> SizeExpr:
        """Makes a computed size, at least 0; an unknown size if it could not be computed."""
        if expr is None or expr.low < 0 or expr.high > MOST:
            low, high = (0, MOST) if expr is None else (max(expr.low, 0), min(expr.high, MOST))
            return self.size(hint, low, high) if low <= high else self.size(hint)
        return expr

    def made(self, dims: Dims | None, items: Any = None, output: int = 0) -> KnownValue:
        """Makes an output of the inferred element type."""
        return known(self.elem_type(output), dims, items)

    def indices(self, dims: Dims | None, items: Any = None) -> KnownValue:
        """Makes an output of int64, as positions and sizes are."""
        return known(TensorProto.INT64, dims, items)


Propagation = Callable[[OperatorView], Sequence[KnownValue] | None]
"""What is known of the outputs, in order; None where the function has nothing to say."""

Propagations = Mapping[str, Propagation]
"""By op_type."""


def normal_axis(axis: int, rank: int) -> int | None:
    """Returns an axis counted from the front; None if it is out of range."""
    return axis % rank if -rank <= axis < rank else None
