"""Decides whether a Loop's counter stays inside an axis in every run."""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues, RunValue
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import Count

_MOVED = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")

Size = tuple[object, int]
"""What stands for a size ("" for nothing), and a number to add to it."""


class LoopRanges:
    """Bounds of a counter over all runs, compared with the sizes of axes.

    bounds: counts that the number of a run does not exceed, as the loop's condition has them. Axes are taken to have an
    element: of one that has none, the first slice would be empty, and what reads it wants as much each time.
    """

    def __init__(self, values: LoopValues, bounds: tuple[int | Count, ...]) -> None:
        self._values = values
        self._bounds = bounds
        self._trips = values.node.constant(0)

    def begins_inside(self, first: RunValue) -> bool:
        """Tells whether the counter is at least 0 in every run."""
        if first.step > 0:
            return not first.base and first.offset >= 0
        if not first.base:
            last = self._last_run()
            return last is not None and first.offset + first.step * last >= 0
        below = self._last_run_below(self._named(first.base))
        return first.step == -1 and below is not None and first.offset >= max(below, -1)

    def ends_inside(self, first: RunValue, length: int, size: Size | None) -> bool:
        """Tells whether counter + length is at most the size in every run."""
        if size is None:
            return False
        base, offset = size
        if first.step < 0:
            return self._named(first.base) == base and first.offset + length <= offset
        if first.base:
            return False
        if base == "":
            last = self._last_run()
            return last is not None and first.offset + first.step * last + length <= offset
        below = self._last_run_below(base)
        if first.step != 1 or below is None:
            return False
        return first.offset + below + length <= offset and first.offset + length <= offset + 1

    def axis(self, data: str, axis: int, dim: Dim) -> Size:
        """Returns the size of an axis; `dim` is its known size or symbol."""
        if isinstance(dim, int):
            return "", dim
        return (dim if isinstance(dim, str) else (data, axis)), 0

    def value(self, limit: RunValue | None) -> Size | None:
        """Returns a loop-invariant value as a size."""
        if limit is None or limit.step:
            return None
        return self._named(limit.base), limit.offset

    def _last_run(self) -> int | None:
        """An upper bound of the last run's index."""
        known = [bound for bound in self._bounds if isinstance(bound, int)]
        if self._trips is not None:
            known.append(int(self._trips.reshape(-1)[0]) - 1)
        return max(0, min(known)) if known else None

    def _last_run_below(self, size: object) -> int | None:
        """A constant c for which the last run's index is at most max(0, size + c)."""
        trips = self._values.node.input(0)
        known = [
            bound.offset
            for bound in self._bounds
            if isinstance(bound, Count)
            and bound.step == 1
            and not bound.minus
            and self._named(bound.plus) == size
        ]
        if trips and self._trips is None and self._named(trips) == size:
            known.append(-1)
        return min(known) if known else None

    def _named(self, name: str) -> object:
        """A key for a value, equal for equal values: symbol, or tensor and axis, of an axis's size; else its origin."""
        for _ in range(32):
            name = self._values.initial.get(name, name)
            maker = self._maker(name)
            if maker is None or not maker.input:
                return name
            if maker.op_type in _MOVED:
                name = maker.input[0]
                continue
            shape = self._maker(maker.input[0])
            while shape is not None and shape.op_type in ("Identity", "Cast"):
                shape = self._maker(shape.input[0])
            if shape is None or shape.op_type != "Shape" or shape.attribute:
                return name
            dims = self._values.dims(shape.input[0])
            axis = self._picked(maker)
            if dims is None or axis is None or not -len(dims) <= axis < len(dims):
                return name
            dim = dims[axis]
            return dim if dim is not None else (shape.input[0], axis % len(dims))
        return name

    def _picked(self, maker: onnx.NodeProto) -> int | None:
        """The index of the single element that a Gather or Slice takes from a shape."""
        picked = [self._number(name) for name in maker.input[1:]]
        if maker.op_type == "Gather":
            return picked[0]
        one = (
            maker.op_type == "Slice"
            and len(picked) >= 2
            and None not in picked
            and picked[2:] in ([], [0], [0, 1])
        )
        start, end = (picked[0], picked[1]) if one else (None, None)
        return (
            start
            if start is not None
            and end is not None
            and (end == start + 1 or (start, end >= 2**31 - 1) == (-1, True))
            else None
        )

    def _number(self, name: str) -> int | None:
        value = self._values.constant(name)
        if value is None:
            value = self._values.node.constant_of(name)
        return (
            int(value.reshape(-1)[0])
            if value is not None and value.size == 1 and value.dtype != np.bool_
            else None
        )

    def _maker(self, name: str) -> onnx.NodeProto | None:
        return self._values.makers.get(name) or self._values.node.producer_of(name)
