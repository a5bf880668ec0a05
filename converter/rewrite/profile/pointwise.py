"""Propagates sizes through operators that work element by element, and small integers through the arithmetic on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from onnx import TensorProto

from trtsmith.converter.rewrite.profile.known_value import KnownValue, broadcast, few, known
from trtsmith.converter.rewrite.profile.operator_view import OperatorView, Propagation, Propagations
from trtsmith.converter.rewrite.profile.size_algebra import SizeAlgebra, SizeExpr, constant

Step = Callable[[SizeAlgebra, SizeExpr, SizeExpr], "SizeExpr | None"]

_LIKE_THE_FIRST = """Relu Sigmoid Tanh Sqrt Exp Log Erf LeakyRelu Elu Selu HardSigmoid HardSwish Softplus Softsign Sin
    Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Softmax LogSoftmax Hardmax IsNaN IsInf Sign Reciprocal ThresholdedRelu
    Celu Mish Gelu Swish LpNormalization LRN InstanceNormalization QuantizeLinear DequantizeLinear CumSum Trilu
    MeanVarianceNormalization GroupNormalization RandomNormalLike RandomUniformLike Bernoulli ReverseSequence
    ScatterElements ScatterND Scatter TensorScatter Shrink BitwiseNot PRelu Dropout LayerNormalization BatchNormalization
    DynamicQuantizeLinear EyeLike RMSNormalization CastLike""".split()  # noqa: SIM905
"""Operators whose first output has the shape of their first input."""

_SAME_ELEMENTS = ("Identity", "Floor", "Ceil", "Round")


def _like_the_first(v: OperatorView) -> Sequence[KnownValue]:
    return [v.made(v.input(0).dims)]


def _same_elements(v: OperatorView) -> Sequence[KnownValue]:
    """Pass the elements through: the only floats that are tracked are whole, and rounding keeps those."""
    first = v.input(0)
    return [known(v.elem_type(), first.dims, first.items)]


def _cast(v: OperatorView) -> Sequence[KnownValue]:
    first, to = v.input(0), int(v.attribute("to", 0))
    items = first.items
    if items is not None and to == TensorProto.BOOL and first.elem_type != to:
        items = _each(items, lambda item: v.algebra.sub(constant(1), v.algebra.equal(item, constant(0))))
    return [known(to, first.dims, items)]


def _each(items: np.ndarray, step: Callable[[SizeExpr], SizeExpr | None]) -> np.ndarray:
    made = np.empty(items.shape, object)
    flat = made.reshape(-1)
    for place, item in enumerate(items.reshape(-1).tolist()):
        flat[place] = None if item is None else step(item)
    return made


def _unary(step: Callable[[SizeAlgebra, SizeExpr], SizeExpr | None], v: OperatorView) -> Sequence[KnownValue]:
    first = v.input(0)
    items = None if first.items is None else _each(first.items, partial(step, v.algebra))
    return [v.made(first.dims, items)]


def _absolute(algebra: SizeAlgebra, item: SizeExpr) -> SizeExpr | None:
    if item.low >= 0:
        return item
    return algebra.sub(constant(0), item) if item.high <= 0 else None


def _clip(v: OperatorView) -> Sequence[KnownValue]:
    """By the bounds that are inputs; attributes, as before opset 11, are of floats."""
    first = v.input(0)
    items = first.items if v.opset >= 11 else None
    for index, step in ((1, SizeAlgebra.larger), (2, SizeAlgebra.smaller)):
        if items is not None and v.given(index):
            limit = v.input(index).items
            if limit is None or limit.size != 1:
                return [v.made(first.dims)]
            items = _pairs(v.algebra, step, items, limit.reshape(()))
    return [v.made(first.dims, items)]


def _dims(v: OperatorView) -> tuple[SizeExpr, ...] | None:
    shapes = [one.dims for one in v.inputs]
    found = [dims for dims in shapes if dims is not None]
    return broadcast(v.algebra, found) if len(found) == len(shapes) else None


def _folded(step: Step, elem_type: int, v: OperatorView) -> Sequence[KnownValue] | None:
    """Elements of two or more inputs, combined from the left. elem_type: of the result; 0 for that of the inputs."""
    if v.opset < 7:  # these broadcast in a way of their own
        return None
    dims = _dims(v)
    result = elem_type or v.elem_type()
    followed = dims is not None and all(one.given is not None for one in v.inputs)
    given = [one.items for one in v.inputs if one.items is not None] if followed else []
    if not given or len(given) < len(v.inputs):
        return [known(result, dims)]
    total = given[0]
    for other in given[1:]:
        if not few(np.broadcast_shapes(total.shape, other.shape)):
            return [known(result, dims)]
        pairs = _pairs(v.algebra, step, total, other)
        items = known(result, tuple(map(constant, pairs.shape)), pairs).items
        if items is None:
            return [known(result, dims)]
        total = items
    return [known(result, dims, total)]


def _pairs(algebra: SizeAlgebra, step: Step, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    made = np.empty(a.shape, object)
    flat = made.reshape(-1)
    for place, (x, y) in enumerate(zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)):
        flat[place] = _either(algebra, step, x, y)
    return made


def _either(algebra: SizeAlgebra, step: Step, x: SizeExpr | None, y: SizeExpr | None) -> SizeExpr | None:
    if x is not None and y is not None:
        return step(algebra, x, y)
    one = x if x is not None else y  # one that is known may decide alone
    if one is not None and one.number is not None and _DECIDING.get(step) == one.number:
        return one
    return None


def _and(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return a if a == b else algebra.mul(a, b)


def _or(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    if a == b:
        return a
    total, both = algebra.add(a, b), algebra.mul(a, b)
    return None if total is None or both is None else algebra.sub(total, both)


_DECIDING: dict[Step, int] = {_and: 0, _or: 1}
"""Of what one side decides, whatever the other is: that side's value."""


def _xor(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return algebra.sub(constant(1), algebra.equal(a, b))


def _at_most(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return algebra.sub(constant(1), algebra.less(b, a))


def _greater(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return algebra.less(b, a)


def _at_least(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return algebra.sub(constant(1), algebra.less(a, b))


def _quotient(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    """Of integers, towards zero: a floor where neither is negative; other numbers are computed."""
    if a.number is not None and b.number:
        size = abs(a.number) // abs(b.number)
        return constant(size if (a.number < 0) == (b.number < 0) else -size)
    return algebra.floor_div(a, b) if a.low >= 0 and b.low > 0 else None


def _exact_quotient(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    """Of floats: where there is no rest."""
    if not b.number:
        return None
    quotient = algebra.floor_div(a, b) if b.number > 0 else None
    rest = None if quotient is None else algebra.add(a, quotient, -b.number)
    return quotient if rest is not None and rest.number == 0 else None


def _div(v: OperatorView) -> Sequence[KnownValue] | None:
    return _folded(_exact_quotient if v.is_float() else _quotient, 0, v)


def _mod(v: OperatorView) -> Sequence[KnownValue] | None:
    """The sign of the rest is the divisor's, or with `fmod` the dividend's: the same where neither is negative."""
    return _folded(_rest, 0, v)


def _rest(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return algebra.mod(a, b) if a.low >= 0 else None


def _pow(algebra: SizeAlgebra, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
    return algebra.product([a] * b.number) if b.number is not None and 0 <= b.number <= 4 else None


def _where(v: OperatorView) -> Sequence[KnownValue] | None:
    dims = _dims(v)
    condition, one, other = (v.input(index).items for index in range(3))
    kind = v.input(1).elem_type
    if condition is None or dims is None or (one is None and other is None):
        return [known(kind, dims)]
    sizes = [x if x is not None else np.array(None, object) for x in (one, other)]
    unfollowed = [v.input(i).sizes for i in (1, 2) if v.input(i).items is None]
    if any(size is None for size in unfollowed):
        return [known(kind, dims)]
    whole = np.broadcast_shapes(condition.shape, *(s.shape for s in sizes), *(s for s in unfollowed if s))
    if not few(whole):
        return [known(kind, dims)]
    c, x, y = (np.broadcast_to(part, whole) for part in (condition, *sizes))
    made = np.empty(whole, object)
    flat = made.reshape(-1)
    rows = zip(c.reshape(-1).tolist(), x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
    for place, (which, left, right) in enumerate(rows):
        flat[place] = _chosen(v.algebra, which, left, right)
    return [known(kind, dims, made)]


def _chosen(
    algebra: SizeAlgebra, which: SizeExpr | None, left: SizeExpr | None, right: SizeExpr | None
) -> SizeExpr | None:
    if which is not None and which.number is not None:
        return left if which.number else right
    if left is None or right is None or left == right:
        return left if left == right else None
    if which is None:
        return None
    return algebra.atom(("where", which, left, right), min(left.low, right.low), max(left.high, right.high))


def _range_of(step: Step, elem_type: int = 0) -> Propagation:
    return partial(_folded, step, elem_type)


def _shape_only(v: OperatorView) -> Sequence[KnownValue] | None:
    return None if v.opset < 7 else [v.made(_dims(v))]


_BOOL = int(TensorProto.BOOL)

POINTWISE: Propagations = {
    **dict.fromkeys(_LIKE_THE_FIRST, _like_the_first),
    **dict.fromkeys(_SAME_ELEMENTS, _same_elements),
    **dict.fromkeys(("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mean"), _shape_only),
    "Cast": _cast,
    "Neg": partial(_unary, lambda algebra, item: algebra.sub(constant(0), item)),
    "Not": partial(_unary, lambda algebra, item: algebra.sub(constant(1), item)),
    "Abs": partial(_unary, _absolute),
    "Add": _range_of(SizeAlgebra.add),
    "Sum": _range_of(SizeAlgebra.add),
    "Sub": _range_of(SizeAlgebra.sub),
    "Mul": _range_of(SizeAlgebra.mul),
    "Min": _range_of(SizeAlgebra.smaller),
    "Max": _range_of(SizeAlgebra.larger),
    "Clip": _clip,
    "Div": _div,
    "Mod": _mod,
    "Pow": _range_of(_pow),
    "Equal": _range_of(SizeAlgebra.equal, _BOOL),
    "Less": _range_of(SizeAlgebra.less, _BOOL),
    "Greater": _range_of(_greater, _BOOL),
    "LessOrEqual": _range_of(_at_most, _BOOL),
    "GreaterOrEqual": _range_of(_at_least, _BOOL),
    "And": _range_of(_and, _BOOL),
    "Or": _range_of(_or, _BOOL),
    "Xor": _range_of(_xor, _BOOL),
    "Where": _where,
}
