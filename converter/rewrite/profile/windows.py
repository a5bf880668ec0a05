"""Propagates sizes through convolutions, pooling, resizing, matrix products and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from trtsmith.converter.rewrite.profile.known_value import Dims, KnownValue, broadcast
from trtsmith.converter.rewrite.profile.operator_view import OperatorView, Propagations
from trtsmith.converter.rewrite.profile.size_algebra import SizeExpr, constant


def _window(v: OperatorView, size: SizeExpr, kernel: int, axis: int, rank: int) -> SizeExpr:
    """The positions of a window along one axis: floor((size + pads - reach) / stride) + 1."""
    stride, dilation = _per_axis(v, "strides", rank)[axis], _per_axis(v, "dilations", rank)[axis]
    pads, automatic = v.attribute("pads"), v.attribute("auto_pad", "NOTSET")
    unknown = v.size((0, axis + 2))
    if stride < 1 or automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""):
        return unknown
    if automatic.startswith("SAME"):
        return v.algebra.ceil_div(size, stride) or unknown
    both = pads[axis] + pads[axis + rank] if pads and automatic != "VALID" else 0
    span = v.algebra.add(size, constant(both - ((kernel - 1) * dilation + 1)))
    ceil = bool(v.attribute("ceil_mode", 0))
    if span is None or span.low < 0:
        return unknown
    steps = v.algebra.ceil_div(span, stride) if ceil else v.algebra.floor_div(span, constant(stride))
    count = None if steps is None else v.algebra.add(steps, constant(1))
    if ceil and steps is not None and stride > 1:
        # A window that would begin in the padding behind the data does not count: whether one does is not decided here.
        last = v.algebra.mul(steps, constant(stride))
        begin = pads[axis] if pads else 0
        late = None if last is None else v.algebra.sub(last, size)
        if late is None or late.high >= begin:
            return v.size((0, axis + 2), 0, steps.high + 1)
    return v.length(count, (0, axis + 2))


def _per_axis(v: OperatorView, name: str, rank: int) -> Sequence[int]:
    values = v.attribute(name)
    return values if values and len(values) == rank else [1] * rank


def _conv(v: OperatorView, weights: int = 1) -> Sequence[KnownValue] | None:
    data, filters = v.input(0).dims, v.input(weights).dims
    if data is None or filters is None or len(data) != len(filters) or len(data) < 3:
        return None
    rank = len(data) - 2
    kernel = v.attribute("kernel_shape") or [size.number for size in filters[2:]]
    if None in kernel or len(kernel) != rank:
        return [v.made((data[0], filters[0], *v.sizes(rank + 2)[2:]))]
    area = [_window(v, size, kernel[axis], axis, rank) for axis, size in enumerate(data[2:])]
    return [v.made((data[0], filters[0], *area))]


def _pool(v: OperatorView) -> Sequence[KnownValue] | None:
    data, kernel = v.input(0).dims, v.attribute("kernel_shape")
    if data is None or not kernel or len(kernel) != len(data) - 2:
        return None
    area = [_window(v, size, kernel[axis], axis, len(kernel)) for axis, size in enumerate(data[2:])]
    dims = (*data[:2], *area)
    return [v.made(dims), v.indices(dims)]


def _global_pool(v: OperatorView) -> Sequence[KnownValue]:
    dims = v.input(0).dims
    return [v.made(None if dims is None else (*dims[:2], *[constant(1)] * (len(dims) - 2)))]


def _conv_transpose(v: OperatorView) -> Sequence[KnownValue] | None:
    """stride · (size - 1) + output_padding + (kernel - 1) · dilation + 1 - pads"""
    data, filters = v.input(0).dims, v.input(1).dims
    if data is None or filters is None or len(data) != len(filters) or len(data) < 3:
        return None
    rank = len(data) - 2
    channels = v.algebra.mul(filters[1], constant(int(v.attribute("group", 1))))
    kernel = v.attribute("kernel_shape") or [size.number for size in filters[2:]]
    plain = v.attribute("auto_pad", "NOTSET") in ("NOTSET", "", "VALID") and not v.attribute("output_shape")
    if channels is None or not plain or None in kernel or len(kernel) != rank:
        return [v.made((data[0], *v.sizes(rank + 2)[1:]))]
    pads = v.attribute("pads") or [0] * (2 * rank)
    added = v.attribute("output_padding") or [0] * rank
    strides, dilations = _per_axis(v, "strides", rank), _per_axis(v, "dilations", rank)
    area = []
    for axis, size in enumerate(data[2:]):
        rest = added[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - pads[axis] - pads[axis + rank]
        spread = v.algebra.mul(size, constant(strides[axis]))
        total = None if spread is None else v.algebra.add(spread, constant(rest - strides[axis]))
        area.append(v.length(total, (0, axis + 2)))
    return [v.made((data[0], channels, *area))]


def _resize(v: OperatorView) -> Sequence[KnownValue] | None:
    """The sizes that are given, or floor(size · scale) for scales that floats have without rounding."""
    dims = v.input(0).dims
    if dims is None:
        return None
    axes = v.attribute("axes") or range(len(dims))
    first = 1 if v.opset < 11 else 2
    exact = v.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
    sizes = v.exprs(3) if v.opset >= 11 and v.given(3) else None
    if sizes is not None and len(sizes) == len(axes) and exact:
        result = list(dims)
        for axis, size in zip(axes, sizes, strict=True):
            result[axis] = v.length(size, (0, axis))
        return [v.made(tuple(result))]
    scales = v.input(first).numbers()
    constants = v.node.scope.constant(v.node.inputs[first]) if v.given(first) else None
    given = v.attribute("scales") or (None if constants is None else constants.reshape(-1).tolist()) or scales
    if given is None or len(given) != len(axes):
        return [v.made(v.sizes(len(dims)))]
    result = list(dims)
    for axis, scale in zip(axes, given, strict=True):
        result[axis] = _scaled(v, dims[axis], Fraction(scale), axis)
    return [v.made(tuple(result))]


def _scaled(v: OperatorView, size: SizeExpr, scale: Fraction, axis: int) -> SizeExpr:
    product = v.algebra.mul(size, constant(scale.numerator))
    if product is None or product.high >= 2**24 or product.low < 0:  # beyond, a float rounds
        return size if scale == 1 else v.size((0, axis))
    return v.length(v.algebra.floor_div(product, constant(scale.denominator)), (0, axis))


def _mat_mul(v: OperatorView, second: int = 1) -> Sequence[KnownValue] | None:
    a, b = v.input(0).dims, v.input(second).dims
    if not a or not b:
        return None
    batch = broadcast(v.algebra, [a[:-2], b[:-2]])
    rows = (a[-2],) if len(a) > 1 else ()
    columns = (b[-1],) if len(b) > 1 else ()
    return [v.made((*batch, *rows, *columns))]


def _gemm(v: OperatorView) -> Sequence[KnownValue] | None:
    a, b = v.input(0).dims, v.input(1).dims
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    return [v.made((a[1] if v.attribute("transA", 0) else a[0], b[0] if v.attribute("transB", 0) else b[1]))]


def _recurrent(v: OperatorView) -> Sequence[KnownValue] | None:
    """Y, Y_h and, of an LSTM, Y_c."""
    data, hidden = v.input(0).dims, v.attribute("hidden_size")
    if data is None or len(data) != 3 or not hidden:
        return None
    directions = constant(2 if v.attribute("direction", "forward") == "bidirectional" else 1)
    width = constant(int(hidden))
    if v.attribute("layout", 0):
        batch, length, _ = data
        states: Dims = (batch, directions, width)
        whole: Dims = (batch, length, directions, width)
    else:
        length, batch, _ = data
        states, whole = (directions, batch, width), (length, directions, batch, width)
    return [v.made(whole), v.made(states), v.made(states)]


WINDOWS: Propagations = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": partial(_conv, weights=3),
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "GlobalLpPool": _global_pool,
    "Resize": _resize,
    "Upsample": _resize,
    "MatMul": _mat_mul,
    "MatMulInteger": _mat_mul,
    "QLinearMatMul": partial(_mat_mul, second=3),
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
