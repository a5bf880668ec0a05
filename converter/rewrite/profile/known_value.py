"""Describes the known part of a value: its sizes, and the elements of small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from trtsmith.converter.rewrite.profile.size_algebra import SizeAlgebra, SizeExpr, constant

Dims = tuple[SizeExpr, ...]

MOST_ITEMS = 1024
"""Elements of the largest value whose elements are followed."""

_RANGES: dict[int, tuple[int, int]] = {
    TensorProto.BOOL: (0, 1),
    TensorProto.INT8: (-(2**7), 2**7 - 1),
    TensorProto.INT16: (-(2**15), 2**15 - 1),
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    TensorProto.INT64: (-(2**63), 2**63 - 1),
    TensorProto.UINT8: (0, 2**8 - 1),
    TensorProto.UINT16: (0, 2**16 - 1),
    TensorProto.UINT32: (0, 2**32 - 1),
    TensorProto.UINT64: (0, 2**64 - 1),
    TensorProto.FLOAT16: (-(2**11), 2**11),  # the integers that a type of floats has all of
    TensorProto.BFLOAT16: (-(2**8), 2**8),
    TensorProto.FLOAT: (-(2**24), 2**24),
    TensorProto.DOUBLE: (-(2**53), 2**53),
}
"""Integers that an element type has without a gap."""

FLOATS = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE})


@dataclass(frozen=True, eq=False)
class KnownValue:
    """The known part of a value. elem_type: onnx.TensorProto.DataType, 0 if unknown. dims: None for an unknown rank.

    given: a constant's array, or `items`.
    items: an array of SizeExpr, and None for elements of which nothing is known; None altogether for values that are not
        followed. Its shape is then the value's. Elements are integers, in types of floats, too.
    """

    elem_type: int = 0
    dims: Dims | None = None
    given: np.ndarray | None = None

    @cached_property
    def items(self) -> np.ndarray | None:  # of constants most are weights, which nobody asks for elements
        if self.given is None or self.given.dtype == object:
            return self.given
        return _items(self.given, self.elem_type)

    @property
    def followed(self) -> int:
        """The number of tracked elements; 0 for a constant whose elements were never read."""
        asked = self.given is not None and (self.given.dtype == object or "items" in self.__dict__)
        return self.given.size if asked and self.given is not None else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnownValue) or (self.elem_type, self.dims) != (other.elem_type, other.dims):
            return False
        if self.items is None or other.items is None:
            return self.items is other.items
        return self.items.shape == other.items.shape and bool(np.all(self.items == other.items))

    __hash__ = None  # type: ignore[assignment]

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """Returns the shape, if each size is a single number."""
        return None if self.dims is None else numbers(self.dims)

    def numbers(self) -> tuple[int, ...] | None:
        """Returns the elements in row-major order, if each is a single number."""
        if self.items is None:
            return None
        flat = self.items.reshape(-1).tolist()
        return None if None in flat else numbers(flat)

    def exprs(self) -> list[SizeExpr | None] | None:
        """Returns the elements in row-major order."""
        return None if self.items is None else self.items.reshape(-1).tolist()


UNKNOWN = KnownValue()


def numbers(exprs: Sequence[SizeExpr]) -> tuple[int, ...] | None:
    """Returns the values of expressions that are all single numbers."""
    found = tuple(expr.low for expr in exprs if expr.low == expr.high)
    return found if len(found) == len(exprs) else None


def few(sizes: Sequence[int] | None) -> bool:
    """Tells whether a shape has few enough elements to track. numpy's own product of sizes could overflow."""
    return sizes is not None and prod(sizes) <= MOST_ITEMS


def fixed(sizes: Sequence[int]) -> Dims:
    return tuple(map(constant, sizes))


def known(elem_type: int, dims: Dims | None, items: Any = None) -> KnownValue:
    """Makes a known value. Elements that the type lacks are unknown: they would wrap around, or round."""
    if items is None or dims is None or items.size > MOST_ITEMS:
        return KnownValue(elem_type, dims)
    array = np.empty(items.shape, object)
    low, high = _RANGES.get(elem_type, (1, 0))
    flat = array.reshape(-1)
    for place, item in enumerate(items.reshape(-1).tolist()):
        flat[place] = item if item is not None and low <= item.low and item.high <= high else None
    if array.size and all(item is None for item in flat.tolist()):
        return KnownValue(elem_type, dims)
    return KnownValue(elem_type, fixed(array.shape), array)


def of_array(array: np.ndarray, elem_type: int) -> KnownValue:
    """Makes a known constant."""
    dims = fixed(array.shape)
    if array.size > MOST_ITEMS or elem_type not in _RANGES:
        return KnownValue(elem_type, dims)
    return KnownValue(elem_type, dims, array)


def _items(array: np.ndarray, elem_type: int) -> np.ndarray | None:
    """The elements of a constant that are whole numbers; None if none is."""
    low, high = _RANGES[elem_type]
    flat = array.reshape(-1)
    with np.errstate(invalid="ignore"):
        whole = (flat == np.floor(flat)) & (flat >= low) & (flat <= high) if elem_type in FLOATS else None
    if whole is not None and flat.size and not whole.any():
        return None
    items = np.empty(flat.size, object)
    values = flat.tolist()
    wholes = values if whole is None else flat[whole].tolist()
    known_as = {value: constant(int(value)) for value in dict.fromkeys(wholes)}
    items[:] = [known_as.get(value) for value in values]  # a zero point has one for all channels
    return items.reshape(array.shape)


def broadcast(algebra: SizeAlgebra, shapes: Sequence[Dims]) -> Dims:
    """Computes the broadcast shape. If sizes differ, one is taken to be 1: otherwise the model would not run."""
    result: list[SizeExpr] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        size = constant(1)
        for dims in shapes:
            if axis <= len(dims):
                size = _common(algebra, size, dims[-axis])
        result.append(size)
    return tuple(result[::-1])


def _common(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr:
    if a == b or b.number == 1:
        return a
    if a.number == 1:
        return b
    for one in (a, b):
        if one.number is not None or one.low > 1:
            return one
    return algebra.atom(("broadcast", frozenset((a, b))), min(a.low, b.low), max(a.high, b.high))
