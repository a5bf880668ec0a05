"""The operands of integer products: the quantised values less their zero points, as float32, with what bounds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.converter.rewrite.rules.quantized.lines import FLOAT, Lines

Shaped = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Operand:
    """Whole numbers in float32.

    name:  of the value among the lines; an operand that is constant has none until it is bound.
    bound: largest magnitude.
    array: the numbers, int32, if they are constant.
    """

    name: str
    bound: int
    array: np.ndarray | None = None

    def named(self, lines: Lines) -> str:
        """The value among the lines."""
        if self.array is not None:
            return lines.bind(self.name, self.array.astype(np.float32))
        return self.name


def operand(
    lines: Lines,
    name: str,
    data: int,
    zero_point: int,
    unsqueezed: Callable[[str, str], str] | None = None,
    shaped: Shaped = lambda zeros: zeros,
) -> Operand:
    """Input `data` less input `zero_point`, which broadcasts after `unsqueezed` (statements) and `shaped` (arrays).

    Differences of 8-bit numbers have 9 bits: float32 has them, and so has TF32, whose 11 bits TensorRT may multiply.
    """
    node = lines.node
    low, high = RANGES[narrow_type(node, data, zero_point) or "uint8"]
    zeros = node.constant(zero_point) if node.input(zero_point) else np.zeros((), np.int8)
    array = node.constant(data)
    if array is not None and zeros is not None:
        shifted = array.astype(np.int32) - shaped(zeros.astype(np.int32))
        return Operand(name, int(np.abs(shifted).max(initial=0)), shifted)
    if zeros is None:
        bound = high - low
    elif zeros.size:
        bound = max(high - int(zeros.min()), int(zeros.max()) - low)
    else:
        bound = 0
    value = lines.cast(f"{name}_cast", f"x{data}", FLOAT)
    if zeros is not None and not zeros.any():
        return Operand(value, bound)
    if zeros is not None:
        point = lines.bind(f"{name}_zero", shaped(zeros.astype(np.float32)))
    else:
        point = lines.cast(f"{name}_zero", f"x{zero_point}", FLOAT)
        if unsqueezed is not None:
            lines.add(unsqueezed(f"{name}_zeros", point))
            point = f"{name}_zeros"
    return Operand(lines.op(name, "Sub", value, point), bound)


def narrow_type(node: NodeView, data: int, zero_point: int) -> str | None:
    """Of input `data`; its zero point has the same, where it is not known itself."""
    return node.dtype(data) or node.dtype(zero_point)


def untyped(node: NodeView, *pairs: tuple[int, int]) -> list[str]:
    """Those of the inputs (data, zero point) whose element type is none of 8 bits: unknown, or another."""
    return [
        node.input(data) for data, zero in pairs if narrow_type(node, data, zero) not in ("int8", "uint8")
    ]
