"""Writes the operands of integer products: quantized values minus their zero points, as float32 with a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES

Shaped = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class IntegerOperand:
    """Integers in float32, with a bound.

    value: None for a constant operand, which is not written yet.
    bound: largest magnitude.
    array: the numbers, int32, if they are constant.
    """

    value: Value | None
    bound: int
    array: np.ndarray | None = None

    def written(self, w: Writer) -> Value:
        """Returns the value; writes it now if it is constant."""
        if self.value is not None:
            return self.value
        assert self.array is not None
        return w.constant(self.array.astype(np.float32))


def operand(
    w: Writer,
    data: int,
    zero_point: int,
    axes: Sequence[int] = (),
    shaped: Shaped = lambda zeros: zeros,
) -> IntegerOperand:
    """Input `data` minus input `zero_point`, which broadcasts after Unsqueeze by `axes`; `shaped` does the same to an array.

    Differences of 8-bit numbers have 9 bits: float32 has them, and so has TF32, whose 11 bits TensorRT may multiply.
    """
    node = w.node
    low, high = RANGES[narrow_type(node, data, zero_point) or "uint8"]
    zeros = node.constant(zero_point) if node.input(zero_point) else np.zeros((), np.int8)
    array = node.constant(data)
    if array is not None and zeros is not None:
        shifted = array.astype(np.int32) - shaped(zeros.astype(np.int32))
        return IntegerOperand(None, int(np.abs(shifted).max(initial=0)), shifted)
    if zeros is None:
        bound = high - low
    elif zeros.size:
        bound = max(high - int(zeros.min()), int(zeros.max()) - low)
    else:
        bound = 0
    value = w.Cast(w.x[data], to="float32")
    if zeros is not None and not zeros.any():
        return IntegerOperand(value, bound)
    if zeros is not None:
        point = w.constant(shaped(zeros.astype(np.float32)))
    else:
        point = w.Cast(w.x[zero_point], to="float32")
        point = w.unsqueeze(point, axes) if axes else point
    return IntegerOperand(w.Sub(value, point), bound)


def narrow_type(node: NodeView, data: int, zero_point: int) -> str | None:
    """Returns the element type of input `data`, or else of its zero point, which has the same type."""
    return node.dtype(data) or node.dtype(zero_point)


def require_8_bits(node: NodeView, *pairs: tuple[int, int]) -> None:
    """Raises RefusedError unless all these inputs (data, zero point) are int8 or uint8."""
    for data, zero in pairs:
        dtype = narrow_type(node, data, zero) or node.known_dtype(data)
        if dtype not in ("int8", "uint8"):
            raise RefusedError(
                f"the element type of {node.input(data)!r} is {dtype}",
                "int8 or uint8",
                "correct the node where the model is exported",
            )
