"""Propagates sizes through operators that reshape tensors, return a shape or take one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import TensorProto, numpy_helper

from trtsmith.converter.rewrite.profile.known_value import (
    FLOATS,
    MOST_ITEMS,
    Dims,
    KnownValue,
    broadcast,
    few,
    fixed,
    known,
    numbers,
)
from trtsmith.converter.rewrite.profile.operator_view import OperatorView, Propagations, normal_axis
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeExpr, constant


def _vector(exprs: Sequence[SizeExpr | None]) -> np.ndarray:
    array = np.empty(len(exprs), object)
    array[:] = list(exprs)
    return array


def _shape(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    if dims is None:
        return [v.indices((v.size("rank", 0, 64),))]
    part = dims[v.attribute("start", 0) : v.attribute("end", len(dims))]
    return [v.indices(fixed([len(part)]), _vector(part))]


def _size(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    items = np.empty((), object)
    items[()] = None if dims is None else v.algebra.product(dims)
    return [v.indices((), items)]


def _reshape(v: OperatorView) -> Sequence[KnownValue]:
    data, wanted = v.input(0), v.exprs(1, "shape")
    if wanted is None:
        count = v.input(1).sizes
        return [v.made(v.sizes(count[0]) if count is not None and len(count) == 1 else None)]
    dims = reshaped(v, data.dims, wanted, zero=bool(v.attribute("allowzero", 0)))
    sizes = numbers(dims)
    fits = data.items is not None and sizes is not None and prod(sizes) == data.items.size
    return [v.made(dims, data.items.reshape(sizes) if fits and data.items is not None else None)]


def reshaped(v: OperatorView, data: Dims | None, wanted: Sequence[SizeExpr | None], zero: bool) -> Dims:
    """Computes the sizes that a Reshape's target gives. zero: whether a 0 means size 0 and not a copy."""
    dims: list[SizeExpr] = []
    hole = None
    for axis, expr in enumerate(wanted):
        number = None if expr is None else expr.number
        if number == -1 and hole is None:
            hole = axis
            dims.append(constant(1))
        elif number == 0 and not zero:
            copied = data[axis] if data is not None and axis < len(data) else None
            dims.append(copied or v.size((0, axis)))
        elif expr is not None and expr.low == 0 and data is not None and data[axis : axis + 1] == (expr,):
            dims.append(expr)  # the same number, whether it is a size or, as 0, a copy of one
        elif expr is None or expr.low < (0 if zero else 1):  # may be a 0 or -1, which mean other things
            dims.append(v.size((0, axis)))
        else:
            dims.append(v.length(expr, (0, axis)))
    if hole is not None:
        dims[hole] = _rest(v, data, [size for axis, size in enumerate(dims) if axis != hole]) or v.size(
            (0, hole)
        )
    return tuple(dims)


def _rest(v: OperatorView, data: Dims | None, others: Sequence[SizeExpr]) -> SizeExpr | None:
    """What is left for the -1: equal sizes cancel, as far as they are not 0; then what remains is divided."""
    if data is None or any(size.low < 1 for size in others):
        return None
    total, divided = Counter(data), Counter(others)
    common = total & divided
    whole = v.algebra.product((total - common).elements())
    part = v.algebra.product((divided - common).elements())
    if whole is None or part is None:
        return None
    quotient = v.algebra.floor_div(whole, part)
    return None if quotient is None or quotient.low < 0 or quotient.high > MOST else quotient


def _flatten(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    if dims is None:
        return [v.made(v.sizes(2))]
    axis = v.attribute("axis", 1)
    axis = axis if axis >= 0 else axis + len(dims)
    halves = (dims[:axis], dims[axis:])
    sizes = tuple(v.length(v.algebra.product(half), (0, i)) for i, half in enumerate(halves))
    return [v.made(sizes)]


def squeezed_axes(v: OperatorView) -> tuple[int, ...] | None:
    """Returns the axes that a Squeeze removes; None if it is unknown which sizes are 1."""
    dims = v.input(0).dims
    if dims is None:
        return None
    if v.given(1) or v.attribute("axes") is not None:
        axes = v.ints(1, "axes")
        normal = [None] if axes is None else [normal_axis(axis, len(dims)) for axis in axes]
        found = tuple(axis for axis in normal if axis is not None)
        return found if len(found) == len(normal) else None
    if any(size.number != 1 and size.low <= 1 <= size.high for size in dims):
        return None
    return tuple(axis for axis, size in enumerate(dims) if size.number == 1)


def _squeeze(v: OperatorView) -> Sequence[KnownValue]:
    data, axes = v.input(0), squeezed_axes(v)
    if data.dims is None or axes is None:
        return [v.made(None)]
    dims = tuple(size for axis, size in enumerate(data.dims) if axis not in axes)
    sizes = numbers(dims)
    return [v.made(dims, data.items.reshape(sizes) if data.items is not None and sizes is not None else None)]


def _unsqueeze(v: OperatorView) -> Sequence[KnownValue]:
    data, axes = v.input(0), v.ints(1, "axes")
    if data.dims is None or axes is None:
        return [v.made(None)]
    rank = len(data.dims) + len(axes)
    places = {normal_axis(axis, rank) for axis in axes}
    if None in places or len(places) < len(axes):
        return [v.made(None)]
    left = iter(data.dims)
    dims = tuple(constant(1) if axis in places else next(left) for axis in range(rank))
    sizes = numbers(dims)
    return [v.made(dims, data.items.reshape(sizes) if data.items is not None and sizes is not None else None)]


def _transpose(v: OperatorView) -> Sequence[KnownValue]:
    data = v.input(0)
    if data.dims is None:
        return [v.made(None)]
    order = tuple(v.attribute("perm") or reversed(range(len(data.dims))))
    if sorted(order) != list(range(len(data.dims))):
        return [v.made(None)]
    items = None if data.items is None else data.items.transpose(order)
    return [v.made(tuple(data.dims[axis] for axis in order), items)]


def _expand(v: OperatorView) -> Sequence[KnownValue]:
    data, wanted = v.input(0), v.exprs(1)
    if wanted is None or data.dims is None:
        count = v.input(1).sizes
        known_rank = count is not None and len(count) == 1 and data.dims is not None
        rank = max(count[0], len(data.dims)) if known_rank and count and data.dims is not None else None
        return [v.made(None if rank is None else v.sizes(rank))]
    target = tuple(
        expr if expr is not None and expr.low >= 0 else v.size(("target", axis))
        for axis, expr in enumerate(wanted)
    )
    dims = broadcast(v.algebra, [data.dims, target])
    sizes = numbers(dims)
    if data.items is None or sizes is None or not few(sizes):
        return [v.made(dims)]
    return [v.made(dims, np.broadcast_to(data.items, sizes))]


def _tile(v: OperatorView) -> Sequence[KnownValue] | None:
    data, repeats = v.input(0), v.exprs(1)
    if v.opset < 6 or data.dims is None:
        return None
    if repeats is None or len(repeats) != len(data.dims):
        return [v.made(v.sizes(len(data.dims)))]
    products = [None if r is None else v.algebra.mul(d, r) for d, r in zip(data.dims, repeats, strict=True)]
    dims = tuple(v.length(expr, (0, axis)) for axis, expr in enumerate(products))
    counts, sizes = [None if r is None else r.number for r in repeats], numbers(dims)
    fits = few(sizes) and None not in counts
    return [v.made(dims, np.tile(data.items, counts) if fits and data.items is not None else None)]  # type: ignore[arg-type]


def _constant_of_shape(v: OperatorView) -> Sequence[KnownValue]:
    wanted = v.exprs(0)
    value = v.attribute("value")
    filled = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    kind = TensorProto.FLOAT if value is None else int(value.data_type)
    if wanted is None:
        count = v.input(0).sizes
        dims = v.sizes(count[0]) if count is not None and len(count) == 1 else None
        return [known(kind, dims)]
    dims = tuple(v.length(expr, (0, axis)) for axis, expr in enumerate(wanted))
    sizes, number = numbers(dims), float(filled.reshape(-1)[0])
    if sizes is None or not few(sizes) or not number.is_integer():
        return [known(kind, dims)]
    items = np.empty(sizes, object)
    items.reshape(-1)[:] = constant(int(filled.reshape(-1)[0]))
    return [known(kind, dims, items)]


def _range(v: OperatorView) -> Sequence[KnownValue]:
    """ceil((limit - start) / delta) elements, and none where that is less than 0."""
    ends = [v.exprs(index) for index in range(3)]
    parts = [one[0] if one is not None and len(one) == 1 else None for one in ends]
    start, limit, delta = parts
    step = None if delta is None else delta.number
    if start is None or limit is None or not step:
        return [v.made((v.size("length"),))]
    span = v.algebra.sub(limit, start) if step > 0 else v.algebra.sub(start, limit)
    count = None if span is None else v.algebra.ceil_div(span, abs(step))
    length = None if count is None else v.algebra.larger(count, constant(0))
    if v.elem_type() in FLOATS and length is not None and length.high > 2**20:
        length = None  # where a quotient of floats may be rounded
    size = v.length(length, "length")
    if size.number is None or size.number > MOST_ITEMS:
        return [v.made((size,))]
    return [v.made((size,), _vector([v.algebra.add(start, constant(i), step) for i in range(size.number)]))]


def _depth_to_space(v: OperatorView) -> Sequence[KnownValue]:
    dims, block = v.input(0).dims, constant(int(v.attribute("blocksize", 1)))
    if dims is None or len(dims) != 4:
        return [v.made(None)]
    batch, channels, *area = dims
    square = v.algebra.mul(block, block)
    fewer = None if square is None else v.algebra.floor_div(channels, square)
    sides = [v.length(v.algebra.mul(side, block), (0, i)) for i, side in enumerate(area, 2)]
    return [v.made((batch, v.length(fewer, (0, 1)), *sides))]


def _space_to_depth(v: OperatorView) -> Sequence[KnownValue]:
    dims, block = v.input(0).dims, constant(int(v.attribute("blocksize", 1)))
    if dims is None or len(dims) != 4:
        return [v.made(None)]
    batch, channels, *area = dims
    square = v.algebra.mul(block, block)
    more = None if square is None else v.algebra.mul(channels, square)
    sides = [v.length(v.algebra.floor_div(side, block), (0, i)) for i, side in enumerate(area, 2)]
    return [v.made((batch, v.length(more, (0, 1)), *sides))]


RESHAPING: Propagations = {
    "Shape": _shape,
    "Size": _size,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
