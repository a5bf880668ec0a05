"""Propagates sizes through operators that cut tensors along their axes, join them, or pad them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.converter.graph.operator_groups import REDUCTIONS
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


SELECTING: Propagations = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "TopK": _top_k,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "NonMaxSuppression": _non_max_suppression,
}


_FAR = 2**31 - 1
"""From there on an end of a slice means: all that is there."""


def _slice(v: OperatorView) -> Sequence[KnownValue]:
    data = v.input(0)
    starts, ends = v.exprs(1, "starts"), v.exprs(2, "ends")
    if data.dims is None:
        return [v.made(None)]
    axes = v.ints(3, "axes") if v.given(3) or v.attribute("axes") else range(len(starts or ()))
    steps = v.ints(4) if v.given(4) else None if axes is None else (1,) * len(axes)
    if axes is None or starts is None or ends is None or steps is None or 0 in steps:
        return [v.made(v.sizes(len(data.dims)))]
    dims = list(data.dims)
    cuts = [slice(None)] * len(dims)
    followed = data.items is not None
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=False):
        place = normal_axis(axis, len(dims))
        if place is None:
            return [v.made(v.sizes(len(data.dims)))]
        if (
            start is None
            or end is None
            or start.number is None
            or end.number is None
            or (step < 0 and end.number >= _FAR)
        ):
            followed = False
        else:
            cuts[place] = slice(start.number, end.number, step)
        dims[place] = _sliced(v, data.dims[place], start, end, step, place)
    return [v.made(tuple(dims), data.items[tuple(cuts)] if followed and data.items is not None else None)]


def _sliced(
    v: OperatorView, size: SizeExpr, start: SizeExpr | None, end: SizeExpr | None, step: int, axis: int
) -> SizeExpr:
    unknown = v.size((0, axis), 0, size.high)
    if start is None or end is None or (step < 0 and end.high >= _FAR):
        return unknown  # backwards to the largest integer: nothing by ONNX, all in onnxruntime
    if size.number is not None and start.number is not None and end.number is not None:
        return constant(len(range(*slice(start.number, end.number, step).indices(size.number))))
    if step < 0:  # the whole axis, backwards
        whole = start.number is not None and end.number is not None and step == -1
        first = start.number == -1 or (start.number or 0) >= _FAR
        return size if whole and first and (end.number or 0) <= -_FAR else unknown
    first_at, last_at = _bound(v, size, start), _bound(v, size, end)
    if first_at is None or last_at is None:
        return unknown
    span = v.algebra.sub(last_at, first_at)
    count = None if span is None else v.algebra.ceil_div(v.algebra.larger(span, constant(0)), step)
    return unknown if count is None else v.length(count, (0, axis))


def _bound(v: OperatorView, size: SizeExpr, at: SizeExpr) -> SizeExpr | None:
    """The bound of a slice along an axis of that size: counted from the end if negative, and clamped."""
    if at.low >= 0:
        return size if at.low >= _FAR else v.algebra.smaller(at, size)
    if at.high < 0:
        place = v.algebra.add(size, at)
        return None if place is None else v.algebra.larger(place, constant(0))
    return None


def _concat(v: OperatorView) -> Sequence[KnownValue]:
    shapes = [one.dims for one in v.inputs if one.dims is not None]
    rank = len(shapes[0]) if shapes else 0
    axis = normal_axis(v.attribute("axis", 1), rank) if rank else None
    if axis is None or any(len(dims) != rank for dims in shapes):
        return [v.made(None)]
    if len(shapes) < len(v.inputs):
        return [v.made(v.sizes(rank))]
    total: SizeExpr | None = constant(0)
    for dims in shapes:
        total = None if total is None else v.algebra.add(total, dims[axis])
    sizes = [_agreed([dims[at] for dims in shapes]) for at in range(rank)]
    sizes[axis] = v.length(total, (0, axis))
    if not few(numbers(sizes)) or all(one.items is None for one in v.inputs):
        return [v.made(tuple(sizes))]
    parts = [_items(one) for one in v.inputs]
    known_parts = [part for part in parts if part is not None]
    whole = len(known_parts) == len(parts)
    return [v.made(tuple(sizes), np.concatenate(known_parts, axis=axis) if whole else None)]


def _items(one: KnownValue) -> np.ndarray | None:
    """The elements; as many unknown ones where a small value is not followed."""
    if one.items is not None or one.sizes is None:
        return one.items
    return np.full(one.sizes, None, object) if few(one.sizes) else None


def _agreed(sizes: Sequence[SizeExpr]) -> SizeExpr:
    """The size of several that are the same: the one of which most is known."""
    return next((size for size in sizes if size.number is not None), sizes[0])


def _split(v: OperatorView) -> Sequence[KnownValue]:
    data, count = v.input(0), len(v.node.outputs)
    axis = None if data.dims is None else normal_axis(v.attribute("axis", 0), len(data.dims))
    if data.dims is None or axis is None:
        return [v.made(None, output=index) for index in range(count)]
    given = v.given(1) or v.attribute("split") is not None
    parts = v.exprs(1, "split") if given else _equal_parts(v, data.dims[axis], count)
    if parts is None or len(parts) != count:
        parts = [None] * count
    offset, results = 0, []
    for index, part in enumerate(parts):
        size = v.length(part, (index, axis))
        dims = (*data.dims[:axis], size, *data.dims[axis + 1 :])
        items = None
        if data.items is not None and offset >= 0 and size.number is not None:
            items = np.take(data.items, range(offset, offset + size.number), axis=axis, mode="clip")
        offset = offset + size.number if size.number is not None and offset >= 0 else -1
        results.append(v.made(dims, items, output=index))
    return results


def _equal_parts(v: OperatorView, size: SizeExpr, count: int) -> list[SizeExpr | None]:
    """All as long as the first, rounded up, and the last what is left: so since opset 18; before it nothing is left over."""
    part = v.algebra.ceil_div(size, count)
    last = None if part is None else v.algebra.add(size, part, 1 - count)
    return [*[part] * (count - 1), last]


def _pad(v: OperatorView) -> Sequence[KnownValue] | None:
    dims, pads = v.input(0).dims, v.exprs(1, "pads")
    if v.opset < 2 or dims is None:
        return None
    axes = v.ints(3) if v.given(3) else tuple(range(len(dims)))
    if pads is None or axes is None or len(pads) != 2 * len(axes):
        return [v.made(v.sizes(len(dims)))]
    sizes = list(dims)
    for index, axis in enumerate(axes):
        place = normal_axis(axis, len(dims))
        if place is None:
            return [v.made(v.sizes(len(dims)))]
        total: SizeExpr | None = sizes[place]
        for pad in (pads[index], pads[index + len(axes)]):
            total = None if total is None or pad is None else v.algebra.add(total, pad)
        sizes[place] = v.length(total, (0, place))
    return [v.made(tuple(sizes))]


SLICING: Propagations = {
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
}
