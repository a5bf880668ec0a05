"""Propagates sizes through operators that pick elements of tensors, or reduce them along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.converter.rewrite.profile.known_value import Dims, KnownValue, few, fixed, known, numbers
from trtsmith.converter.rewrite.profile.operator_view import OperatorView, Propagations, normal_axis
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeExpr, constant


def _gather(v: OperatorView) -> Sequence[KnownValue]:
    data, at = v.input(0), v.input(1)
    axis = None if data.dims is None else normal_axis(v.attribute("axis", 0), len(data.dims))
    if data.dims is None or at.dims is None or axis is None:
        return [v.made(None)]
    dims = (*data.dims[:axis], *at.dims, *data.dims[axis + 1 :])
    places = at.numbers()
    length = data.dims[axis].number
    if data.items is None or places is None or length is None or at.sizes is None:
        return [v.made(dims)]
    if any(not -length <= place < length for place in places):
        return [v.made(dims)]
    if not few(numbers(dims)):
        return [v.made(dims)]
    wanted = np.array(places, np.int64).reshape(at.sizes) % max(length, 1)
    taken = np.empty(numbers(dims) or (), object)
    taken[...] = np.take(data.items, wanted, axis=axis)
    return [v.made(dims, taken)]


def _gather_elements(v: OperatorView) -> Sequence[KnownValue]:
    return [v.made(v.input(1).dims)]


def _gather_nd(v: OperatorView) -> Sequence[KnownValue]:
    data, at, batch = v.input(0).dims, v.input(1).dims, v.attribute("batch_dims", 0)
    deep = at[-1].number if at else None
    if data is None or at is None or deep is None or batch + deep > len(data):
        return [v.made(None)]
    return [v.made((*at[:-1], *data[batch + deep :]))]


def _reduced_axes(v: OperatorView, rank: int) -> set[int] | None:
    given = v.given(1) or v.attribute("axes") is not None
    axes = v.ints(1, "axes") if given else ()
    if axes is None:
        return None
    if not axes:
        return set() if v.attribute("noop_with_empty_axes", 0) else set(range(rank))
    places = [normal_axis(axis, rank) for axis in axes]
    return None if None in places else {place for place in places if place is not None}


def _reduce(v: OperatorView) -> Sequence[KnownValue]:
    data = v.input(0)
    axes = None if data.dims is None else _reduced_axes(v, len(data.dims))
    keep = bool(v.attribute("keepdims", 1))
    if data.dims is None or axes is None:
        return [v.made(v.sizes(len(data.dims)) if data.dims is not None and keep else None)]
    dims = _without(data.dims, axes, keep)
    step = _STEPS.get(v.node.op_type)
    sizes = numbers(dims)
    if step is None or data.items is None or sizes is None or not few(sizes):
        return [v.made(dims)]
    items = np.empty(sizes, object)
    moved = np.moveaxis(data.items, sorted(axes), range(len(axes))) if axes else data.items[None]
    rows = moved.reshape(-1, max(items.size, 1)) if data.items.size else None
    if rows is None or not len(rows):
        return [v.made(dims)]
    flat = items.reshape(-1)
    for place in range(items.size):
        flat[place] = _combined(v, step, rows[:, place].tolist())
    return [v.made(dims, items)]


_STEPS = {"ReduceProd": "mul", "ReduceSum": "add", "ReduceMax": "larger", "ReduceMin": "smaller"}
"""Reductions whose elements are followed, by what combines two."""


def _combined(v: OperatorView, step: str, exprs: Sequence[SizeExpr | None]) -> SizeExpr | None:
    total = exprs[0]
    for expr in exprs[1:]:
        total = None if total is None or expr is None else getattr(v.algebra, step)(total, expr)
        if total is not None and known(v.elem_type(), (), np.array(total, object)).items is None:
            return None
    return total


def _without(dims: Dims, axes: set[int], keep: bool) -> Dims:
    if keep:
        return tuple(constant(1) if axis in axes else size for axis, size in enumerate(dims))
    return tuple(size for axis, size in enumerate(dims) if axis not in axes)


def _arg(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    axis = None if dims is None else normal_axis(v.attribute("axis", 0), len(dims))
    if dims is None or axis is None:
        return [v.indices(None)]
    return [v.indices(_without(dims, {axis}, bool(v.attribute("keepdims", 1))))]


def _top_k(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    axis = None if dims is None else normal_axis(v.attribute("axis", -1), len(dims))
    if dims is None or axis is None:
        return [v.made(None), v.indices(None)]
    counts = [constant(v.attribute("k"))] if v.attribute("k") is not None else v.exprs(1)
    count = counts[0] if counts is not None and len(counts) == 1 else None
    size = v.length(count, (0, axis)) if count is not None else v.size((0, axis), 0, dims[axis].high)
    shape = (*dims[:axis], size, *dims[axis + 1 :])
    return [v.made(shape), v.indices(shape)]


def _non_zero(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    total = None if dims is None else v.algebra.product(dims)
    high = MOST if total is None else max(0, min(total.high, MOST))
    rank = v.size("rank", 0, 64) if dims is None else constant(max(len(dims), 1))
    return [v.indices((rank, v.size("count", 0, high)))]


def _one_hot(v: OperatorView) -> Sequence[KnownValue]:
    dims, depths = v.input(0).dims, v.exprs(1)
    axis = None if dims is None else normal_axis(v.attribute("axis", -1), len(dims) + 1)
    if dims is None or axis is None:
        return [known(v.input(2).elem_type, None)]
    depth = v.length(depths[0] if depths is not None and len(depths) == 1 else None, (0, axis))
    return [known(v.input(2).elem_type, (*dims[:axis], depth, *dims[axis:]))]


def _non_max_suppression(v: OperatorView) -> Sequence[KnownValue]:
    return [v.indices((v.size("boxes"), fixed([3])[0]))]


_REDUCTIONS = [
    f"Reduce{kind}"
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
]

SELECTING: Propagations = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "TopK": _top_k,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "NonMaxSuppression": _non_max_suppression,
}
