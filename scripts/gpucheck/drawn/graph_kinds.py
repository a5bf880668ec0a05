"""Draws a fitting value and random attributes for each kind of operator, for graph_draw.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpucheck.drawn.graph_draw import Draw, NothingFitsError
from trtsmith.importers.dtypes import NUMBERS

_TARGETS = {name: NUMBERS[name] for name in ("float32", "float16", "int32", "int64", "bool", "uint8", "int8")}


def _any(_: np.ndarray) -> bool:
    return True


def _float(value: np.ndarray) -> bool:
    return value.dtype.kind == "f"


def _axes(value: np.ndarray) -> bool:
    return value.ndim > 0


def _float_axes(value: np.ndarray) -> bool:
    return _float(value) and _axes(value)


def _arithmetic(value: np.ndarray) -> bool:
    return str(value.dtype) in ("float32", "float16", "int32", "int64")


def _planes(value: np.ndarray) -> bool:
    return _float(value) and value.ndim == 4


def _bool(value: np.ndarray) -> bool:
    return value.dtype == bool


def _longest(value: np.ndarray) -> int:
    return int(np.argmax(value.shape))


def _axis(d: Draw, value: np.ndarray) -> int:
    """A random axis, counted from the front or the end."""
    return d.number(-value.ndim, value.ndim)


def unary(d: Draw) -> None:
    smooth = "Relu Neg Abs Sigmoid Tanh Erf Softplus HardSigmoid LeakyRelu Elu Selu Exp Sin Cos Atan HardSwish Mish"
    steps = "Floor Ceil Round Sign"
    if d.chance(0.2):
        d.node(d.choice(steps.split()), [d.pick(_float, exact=True)])
        return
    op_type = d.choice((smooth + " Softsign ThresholdedRelu Celu Identity").split())
    name = d.pick(_float)
    if op_type in ("Sin", "Cos") and name in d.rounded:  # of a large number the last digits decide
        raise NothingFitsError
    d.node(op_type, [name])


def whole(d: Draw) -> None:
    d.node(d.choice(("Abs", "Neg", "Sign")), [d.pick(lambda v: v.dtype.kind == "i" and v.dtype.itemsize > 1)])


def binary(d: Draw) -> None:
    name = d.pick(_arithmetic)
    value = d.values[name]
    op_type = d.choice(
        ("Add", "Sub", "Mul", "Max", "Min", *(("Div", "PRelu") if _float(value) else ("Mod", "Div")))
    )
    pair = [name, d.operand(name)]
    if op_type != "PRelu" and d.chance(0.4):
        pair.reverse()
    if op_type in ("Mod", "Div") and not _float(value):
        least = min(d.values[pair[0]].min(), d.values[pair[1]].min() - 1)
        if least < 0:  # runtimes differ in how they round
            raise NothingFitsError
    d.node(op_type, pair)


def several(d: Draw) -> None:
    name = d.pick(_float)
    d.node(d.choice(("Max", "Min", "Sum", "Mean")), [name, d.operand(name), d.operand(name)])


def comparison(d: Draw) -> None:
    name = d.pick(_arithmetic, exact=True)
    op_type = d.choice(("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"))
    d.node(op_type, [name, d.operand(name, exact=True)])


def logic(d: Draw) -> None:
    name = d.pick(_bool)
    if d.chance(0.3):
        d.node("Not", [name])
    else:
        d.node(d.choice(("And", "Or", "Xor")), [name, d.operand(name)])


def where(d: Draw) -> None:
    name = d.pick(_bool)
    shape = d.values[name].shape
    alike = [n for n, v in d.values.items() if v.shape == shape and v.dtype != bool and n not in d.fixed]
    first = str(d.choice(alike)) if alike and d.chance(0.7) else d.constant(d.array(shape))
    second = d.constant(d.array(() if d.chance(0.5) else shape, str(d.values[first].dtype)))
    d.node("Where", [name, first, second] if d.chance(0.5) else [name, second, first])


def cast(d: Draw) -> None:
    target = d.choice(list(_TARGETS))
    to_whole = target not in ("float32", "float16")
    name = d.pick(lambda v: str(v.dtype) != target, exact=to_whole)
    if _float(d.values[name]) and target in ("uint8", "int8"):  # what does not fit is nobody's business
        raise NothingFitsError
    d.node("Cast", [name], to=_TARGETS[target])


def reshape(d: Draw) -> None:
    name = d.pick(_axes, fixed=True)
    sizes = list(d.values[name].shape)
    where_ = d.number(0, len(sizes))
    if d.chance(0.4) and where_ + 1 < len(sizes):
        sizes[where_ : where_ + 2] = [sizes[where_] * sizes[where_ + 1]]
    elif d.chance(0.7):
        size = sizes[where_]
        part = next((p for p in (2, 3, 4, 5) if size % p == 0 and size > p), 1)
        sizes[where_ : where_ + 1] = [part, size // part]
    else:
        sizes.reverse()
    if d.chance(0.4):
        sizes[d.number(0, len(sizes))] = -1
    d.node("Reshape", [name, d.ints(*sizes)])


def flatten(d: Draw) -> None:
    name = d.pick(lambda v: v.ndim > 1, fixed=True)
    d.node("Flatten", [name], axis=d.number(0, d.values[name].ndim))


def transpose(d: Draw) -> None:
    name = d.pick(lambda v: v.ndim > 1, fixed=True)
    d.node("Transpose", [name], perm=d.random.permutation(d.values[name].ndim).tolist())


def unsqueeze(d: Draw) -> None:
    name = d.pick(_any, fixed=True)
    d.node("Unsqueeze", [name, d.ints(d.number(-1, d.values[name].ndim + 1))])


def squeeze(d: Draw) -> None:
    name = d.pick(lambda v: 1 in v.shape, fixed=True)
    d.node("Squeeze", [name, d.ints(d.values[name].shape.index(1))])


def slice_(d: Draw) -> None:
    name = d.pick(lambda v: _axes(v) and max(v.shape) > 2, fixed=True)
    value = d.values[name]
    axis = _longest(value)
    size, step = value.shape[axis], d.choice((1, 1, 2, -1, -2))
    start, end = d.number(0, size // 2), d.choice((size, -1, 2**31, size - 1))
    if step < 0:
        start, end = d.choice((-1, size - 1, size - 2)), d.choice((0, -(2**31), -size - 1))
    d.node("Slice", [name, *(d.ints(n) for n in (start, end, d.choice((axis, axis - value.ndim)), step))])


def concat(d: Draw) -> None:
    name = d.pick(_axes, fixed=True)
    value = d.values[name]
    axis = _axis(d, value)
    sizes = list(value.shape)
    sizes[axis] = d.number(1, 4)
    other = name if d.chance(0.4) else d.constant(d.array(sizes, str(value.dtype)))
    d.node("Concat", [name, other] if d.chance(0.5) else [other, name], axis=axis)


def split(d: Draw) -> None:
    name = d.pick(lambda v: _axes(v) and max(v.shape) > 1, fixed=True)
    value = d.values[name]
    axis = _longest(value)
    first = d.number(1, value.shape[axis])
    d.node("Split", [name, d.ints(first, value.shape[axis] - first)], 2, axis=axis)


def expand(d: Draw) -> None:
    name = d.pick(_axes, fixed=True)
    sizes = [size if size != 1 else d.number(1, 4) for size in d.values[name].shape]
    d.node("Expand", [name, d.ints(*([2] if d.chance(0.4) else []), *sizes)])


def tile(d: Draw) -> None:
    name = d.pick(_axes, fixed=True)
    d.node("Tile", [name, d.ints(*d.random.integers(1, 3, d.values[name].ndim).tolist())])


def pad(d: Draw) -> None:
    name = d.pick(_float_axes)
    value = d.values[name]
    mode = d.choice(("constant", "constant", "reflect", "edge"))
    if mode == "constant":
        pads = d.ints(*d.random.integers(-1, 3, 2 * value.ndim).tolist())
        d.node("Pad", [name, pads, d.constant(np.array(1.5, value.dtype))], mode=mode)
    else:
        d.node("Pad", [name, d.ints(*d.random.integers(0, 2, 2 * value.ndim).tolist())], mode=mode)


def gather(d: Draw) -> None:
    name = d.pick(_axes, fixed=True)
    axis = d.number(0, d.values[name].ndim)
    size = d.values[name].shape[axis]
    where_ = d.random.integers(-size, size, d.choice(((), (2,), (2, 3)))).astype(np.int64)
    indices = d.constant(where_) if d.dynamic or d.chance(0.6) else d.input(np.asarray(where_))
    d.node("Gather", [name, indices], axis=axis)


def gather_elements(d: Draw) -> None:
    name = d.pick(_axes)
    value = d.values[name]
    axis = d.number(0, value.ndim)
    indices = d.random.integers(-value.shape[axis], value.shape[axis], value.shape)
    d.node("GatherElements", [name, d.constant(indices.astype(np.int64))], axis=axis)


def gather_nd(d: Draw) -> None:
    name = d.pick(lambda v: v.ndim > 1)
    indices = np.stack([d.random.integers(0, size, 3) for size in d.values[name].shape[:2]], -1)
    d.node("GatherND", [name, d.constant(indices.astype(np.int64))])


def scatter(d: Draw) -> None:
    name = d.pick(_float_axes)
    value = d.values[name]
    axis = d.number(0, value.ndim)
    sizes = list(value.shape)
    sizes[axis] = 1
    indices = d.constant(d.random.integers(0, value.shape[axis], sizes).astype(np.int64))
    d.node("ScatterElements", [name, indices, d.constant(d.array(sizes, str(value.dtype)))], axis=axis)


def reduce(d: Draw) -> None:
    name = d.pick(_float_axes)
    rank = d.values[name].ndim
    kinds = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    kind = d.choice(kinds)
    if kind == "Prod" and d.values[name].dtype == np.float16:  # each factor may cost a digit
        raise NothingFitsError
    axes = d.random.permutation(rank)[: d.number(1, min(rank, 2) + 1)] - (rank if d.chance(0.3) else 0)
    d.node(f"Reduce{kind}", [name, d.ints(*axes.tolist())], keepdims=d.number(0, 2))


def softmax(d: Draw) -> None:
    name = d.pick(_float_axes)
    d.node(d.choice(("Softmax", "LogSoftmax")), [name], axis=_axis(d, d.values[name]))


def layer_norm(d: Draw) -> None:
    name = d.pick(lambda v: _float(v) and v.ndim > 1 and v.shape[-1] > 1)
    value = d.values[name]
    scale, bias = (d.constant(d.array(value.shape[-1:], str(value.dtype))) for _ in range(2))
    d.node("LayerNormalization", [name, scale, bias], axis=-1)


def arg(d: Draw) -> None:
    name = d.pick(_float_axes, exact=True)
    d.node(d.choice(("ArgMax", "ArgMin")), [name], axis=_axis(d, d.values[name]), keepdims=d.number(0, 2))


def top_k(d: Draw) -> None:
    name = d.pick(_float_axes, exact=True)
    value = d.values[name]
    axis = d.number(0, value.ndim)
    d.node("TopK", [name, d.ints(d.number(1, value.shape[axis] + 1))], 2, axis=axis, largest=d.number(0, 2))


def cumulative(d: Draw) -> None:
    name = d.pick(_float_axes)
    axis = d.constant(np.array(d.number(0, d.values[name].ndim)))
    d.node("CumSum", [name, axis], exclusive=d.number(0, 2), reverse=d.number(0, 2))


def product(d: Draw) -> None:
    name = d.pick(lambda v: _float(v) and v.ndim > 1)
    value = d.values[name]
    dtype = str(value.dtype)
    if value.ndim == 2 and d.chance(0.5):
        operands = [d.constant(d.array((4, value.shape[1]), dtype)), d.constant(d.array((4,), dtype))]
        d.node("Gemm", [name, *operands], transB=1, alpha=d.choice((1.0, 0.5)), beta=d.choice((1.0, 2.0)))
    else:
        d.node("MatMul", [name, d.constant(d.array((value.shape[-1], d.number(1, 6)), dtype))])


def convolution(d: Draw) -> None:
    name = d.pick(_planes)
    value, kernel = d.values[name], d.choice((1, 3))
    weights = d.constant(
        d.array((4, value.shape[1], kernel, kernel), str(value.dtype)) * value.dtype.type(0.3)
    )
    d.node("Conv", [name, weights], pads=[kernel // 2] * 4, strides=[d.number(1, 3)] * 2)


def pooling(d: Draw) -> None:
    name = d.pick(lambda v: _planes(v) and min(v.shape[2:]) > 2)
    op_type = d.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if op_type.startswith("Global"):
        d.node(op_type, [name])
        return
    more: dict[str, Any] = {"count_include_pad": d.number(0, 2)} if op_type == "AveragePool" else {}
    ceil = d.number(0, 2)
    d.node(op_type, [name], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], ceil_mode=ceil, **more)


def rearranged(d: Draw) -> None:
    name = d.pick(lambda v: _planes(v) and v.shape[1] % 4 == 0)
    d.node("DepthToSpace", [name], blocksize=2, mode=d.choice(("DCR", "CRD")))


def resize(d: Draw) -> None:
    name = d.pick(_planes)
    mode = d.choice(("nearest", "linear"))
    more = {"nearest_mode": d.choice(("floor", "round_prefer_floor", "ceil"))} if mode == "nearest" else {}
    scales = d.constant(np.array([1, 1, 2, 1.5], np.float32))
    places = d.choice(("half_pixel", "asymmetric", "align_corners"))
    d.node("Resize", [name, "", scales], mode=mode, coordinate_transformation_mode=places, **more)


def triangle(d: Draw) -> None:
    d.node("Trilu", [d.pick(lambda v: _float(v) and v.ndim > 1)], upper=d.number(0, 2))


def shape(d: Draw) -> None:
    d.node("Shape", [d.pick(_axes)])


def one_hot(d: Draw) -> None:
    name = d.pick(lambda v: v.dtype == np.int64)
    d.node("OneHot", [name, d.constant(np.array(5)), d.constant(np.array([0.5, 2], np.float32))], axis=-1)


KINDS: tuple[Callable[[Draw], None], ...] = (
    *(unary, unary, whole, binary, binary, binary, several, comparison, logic, logic, where, cast, cast),
    *(reshape, flatten, transpose, unsqueeze, squeeze, slice_, concat, split, expand, tile, pad),
    *(gather, gather_elements, gather_nd, scatter, reduce, reduce, softmax, softmax, layer_norm),
    *(arg, top_k, cumulative, product, convolution, pooling, rearranged, resize, triangle, shape, one_hot),
)
"""Those that are drawn more often stand here more often."""
