"""Merges the knowledge of subgraph results: of both branches, of all runs of a loop, of the last run."""

from __future__ import annotations

from functools import partial

import numpy as np

from trtsmith.converter.rewrite.profile.known_value import KnownValue, known
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeAlgebra, SizeExpr


class NestedResults:
    """Joins what is known of values. key: which value of which node; equal ones have to be the same value.

    mark: the number of atoms when a loop was first met: later ones may belong to one run of it.
    """

    def __init__(self, algebra: SizeAlgebra) -> None:
        self._algebra = algebra

    def common(self, one: KnownValue, other: KnownValue, key: tuple[object, ...]) -> KnownValue:
        """What holds of a value that is one or the other."""
        elem_type = one.elem_type if one.elem_type == other.elem_type else 0
        if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
            return KnownValue(elem_type)
        dims = tuple(
            self._joined(a, b, (*key, axis))
            for axis, (a, b) in enumerate(zip(one.dims, other.dims, strict=True))
        )
        if one.items is None or other.items is None or one.items.shape != other.items.shape:
            return KnownValue(elem_type, dims)
        items = np.empty(one.items.size, object)
        pairs = zip(one.exprs() or (), other.exprs() or (), strict=True)
        items[:] = [
            None if a is None or b is None else self._joined(a, b, (*key, "item", place))
            for place, (a, b) in enumerate(pairs)
        ]
        return known(elem_type, dims, items.reshape(one.items.shape))

    def _joined(self, a: SizeExpr, b: SizeExpr, key: tuple[object, ...]) -> SizeExpr:
        return a if a == b else self._algebra.fresh(key, min(a.low, b.low), max(a.high, b.high))

    def widened(self, before: KnownValue, after: KnownValue, key: tuple[object, ...]) -> KnownValue:
        """What holds of a state before a run and after it. A size that changes may become any."""
        elem_type = before.elem_type or after.elem_type
        if before.dims is None or after.dims is None or len(before.dims) != len(after.dims):
            return KnownValue(elem_type)
        dims = tuple(
            a if a == b else self._algebra.fresh((*key, axis))
            for axis, (a, b) in enumerate(zip(before.dims, after.dims, strict=True))
        )
        if before.items is None or after.items is None or before.items.shape != after.items.shape:
            return KnownValue(elem_type, dims)
        items = np.empty(before.items.size, object)
        items[:] = [
            a if a is not None and a == b else None
            for a, b in zip(before.exprs() or (), after.exprs() or (), strict=True)
        ]
        return known(elem_type, dims, items.reshape(before.items.shape))

    def escaped(self, one: KnownValue, mark: int, key: tuple[object, ...]) -> KnownValue:
        """A value of the last run outside of the loop: sizes that belong to one run are ones of which the range is known."""
        if one.dims is None:
            return one
        outside = partial(self._outside, mark)
        dims = tuple(outside(size, (*key, axis)) for axis, size in enumerate(one.dims))
        if one.items is None:
            return KnownValue(one.elem_type, dims)
        items = np.empty(one.items.size, object)
        items[:] = [
            None if item is None else outside(item, (*key, "item", place))
            for place, item in enumerate(one.exprs() or ())
        ]
        return known(one.elem_type, dims, items.reshape(one.items.shape))

    def _outside(self, mark: int, expr: SizeExpr, key: tuple[object, ...]) -> SizeExpr:
        if all(atom < mark for atom in expr.atoms()):
            return expr
        return self._algebra.fresh((*key, "last"), expr.low, expr.high)

    def collected(
        self, one: KnownValue, mark: int, runs: SizeExpr | None, key: tuple[object, ...]
    ) -> KnownValue:
        """What a loop collects of its runs. Without any, nothing is said of its other sizes."""
        if one.dims is None:
            return KnownValue(one.elem_type)
        count = runs if runs is not None and runs.high <= MOST else self._algebra.fresh((*key, "runs"))
        if count.low < 1:
            return KnownValue(
                one.elem_type,
                (count, *(self._algebra.fresh((*key, "any", axis)) for axis in range(len(one.dims)))),
            )
        return KnownValue(
            one.elem_type, (count, *(self.escaped(KnownValue(0, one.dims), mark, key).dims or ()))
        )
