"""Presents one operand that a graph input reaches to the rules of input generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.importers.registry import normalise_domain


@dataclass(frozen=True)
class InputFlow:
    """The path from an input to a value: data movement, and scale * element + shift.

    alone: no other tensor was added on the way.
    """

    source: str
    scale: float = 1.0
    shift: float = 0.0
    alone: bool = True

    def then(self, scale: float = 1.0, shift: float = 0.0) -> InputFlow:
        """Appends a multiplication and an addition."""
        return InputFlow(self.source, self.scale * scale, self.shift * scale + shift, self.alone)

    @property
    def plain(self) -> bool:
        return self.scale == 1.0 and self.shift == 0.0 and self.alone

    def before(self, low: float, high: float) -> tuple[float, float]:
        """Returns the range of input elements that keeps the value between low and high."""
        ends = ((low - self.shift) / self.scale, (high - self.shift) / self.scale)
        return min(ends), max(ends)


@dataclass(frozen=True)
class Known:
    """The known facts of a model's values: shapes (None for an unknown size), element types, small constants, makers."""

    shapes: Mapping[str, tuple[int | None, ...]]
    dtypes: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    makers: Mapping[str, onnx.NodeProto]
    readers: Mapping[str, tuple[onnx.NodeProto, ...]]


@dataclass(frozen=True)
class InputOperand:
    """Input `position` of `node`, which the graph input `flow.source` reaches."""

    node: onnx.NodeProto
    position: int
    flow: InputFlow
    known: Known

    @property
    def kind(self) -> tuple[str, str]:
        return normalise_domain(self.node.domain), self.node.op_type

    def reads(self, what: str) -> str:
        """Words the reason for a meaning: "Gather 'embed' reads indices"."""
        return f"{self.node.op_type} {(self.node.name or self.node.output[0])!r} reads {what}"

    def attribute(self, name: str, default: Any) -> Any:
        found = next((a for a in self.node.attribute if a.name == name), None)
        return default if found is None else helper.get_attribute_value(found)

    def name(self, position: int) -> str:
        """Returns the value at a position; "" where there is none."""
        return self.node.input[position] if position < len(self.node.input) else ""

    def shape(self, position: int) -> tuple[int | None, ...] | None:
        return self.known.shapes.get(self.name(position))

    def size(self, position: int, axis: int) -> int | None:
        """Returns a size of an input; None if it is not known."""
        shape = self.shape(position)
        return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None

    def dtype(self, position: int) -> str:
        return self.known.dtypes.get(self.name(position), "")

    def constant(self, position: int) -> np.ndarray | None:
        return self.known.constants.get(self.name(position))

    @property
    def is_float(self) -> bool:
        return self.dtype(self.position).startswith(("float", "bfloat"))
