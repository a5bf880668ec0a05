"""Represents an unknown dimension: arithmetic on it stays unknown, so shape rules need no special cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


class Unknown:
    """A dimension without a value. `name` is kept while nothing is computed with it (an ONNX dim_param)."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def _swallow(self, _other: Any) -> Unknown:
        return Unknown()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _swallow

    def __repr__(self) -> str:
        return self.name or "?"


def smaller(one: Any, other: Any) -> Any:
    """Returns the smaller of two dimensions. Symbolic dimensions compare themselves."""
    return min(one, other) if isinstance(one, int) else one.smaller(other)


def gcd(one: Any, other: Any) -> Any:
    """Returns the greatest common divisor. As in `smaller`, symbolic dimensions compute it themselves."""
    return math.gcd(one, other) if isinstance(one, int) else one.gcd(other)


def known(shape: Sequence[Any]) -> tuple[int | None, ...]:
    """Returns the shape with None for every dimension that is not an int."""
    return tuple(dim if isinstance(dim, int) else None for dim in shape)


def describe(shape: Sequence[Any]) -> str:
    """Writes the shape as people do: [1, 3, ?, 640]."""
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
