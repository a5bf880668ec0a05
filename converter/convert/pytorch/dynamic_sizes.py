"""Reads the profile of an exported program: the ranges of its dynamic dimensions, and the example's sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._sympy.value_ranges import bound_sympy

from trtsmith.converter.model.shapes import ShapeRange

_LARGEST = (
    2**31 - 1
)  # a dimension of TensorRT is an int64, and nothing reaches this: PyTorch writes "any" as larger


def profile_of(
    program: Any, inputs: Mapping[str, Sequence[int]], fakes: Mapping[str, Any]
) -> tuple[dict[str, ShapeRange], dict[str, str]]:
    """(ranges of dynamic inputs by name, dimensions without a largest size by input).

    inputs: shapes of the example. fakes: the program's symbolic tensors by input. A smallest size of 0 is PyTorch's way to
    say that nobody named one, and becomes 1.
    """
    profile: dict[str, ShapeRange] = {}
    open_: dict[str, str] = {}
    for name, shape in inputs.items():
        bounds = [_bounds(size, program.range_constraints) for size in fakes[name].shape]
        if all(low == high for low, high in bounds):
            continue
        endless = [axis for axis, (_, high) in enumerate(bounds) if high is None]
        if endless:
            open_[name] = ", ".join(map(str, endless))
            continue
        low = tuple(min(max(least, 1), size) for (least, _), size in zip(bounds, shape, strict=True))
        high = tuple(max(most or 0, size) for (_, most), size in zip(bounds, shape, strict=True))
        profile[name] = ShapeRange(low, tuple(shape), high)
    return profile, open_


def _bounds(size: Any, constraints: Mapping[Any, Any]) -> tuple[int, int | None]:
    """(smallest, largest; None where there is no end) of one dimension."""
    if isinstance(size, int):
        return size, size
    expression = size.node.expr
    if expression.is_Integer:
        return int(expression), int(expression)
    found = bound_sympy(expression, dict(constraints))
    high = _whole(found.upper)
    return _whole(found.lower) or 0, high if high is not None and high <= _LARGEST else None


def _whole(value: Any) -> int | None:
    """The number; None for one that is infinite."""
    return int(value) if value.is_Integer else None
