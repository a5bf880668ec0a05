"""Rewrites a Transpose of more than eight axes between two Reshapes, as TensorRT's tensors have eight axes at most.

Axes of one element are left out, and axes that stay neighbours are one. Where more than eight are left, an axis at a time
moves behind the one that it follows in the end, by a Transpose of up to four axes, until they are few enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trtsmith.converter.graph.operator_groups import op_types
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer

_MOST = 8
"""Dims::MAX_DIMS of NvInferRuntimeBase.h."""

_REST = -1
"""A size that Reshape finds; of one axis at most."""

_FUNCTIONS = op_types(
    "Abs Add Cast Clip Div Elu Erf Exp Gelu HardSigmoid HardSwish Identity LeakyRelu Log Max Min Mul Neg Pow Relu Sigmoid "
    "Sqrt Sub Tanh"
)
"""Of single elements; of a second operand that is one number, too."""

Size = int | Value


@node_rule("many-axes", "Reshape", "Transpose", "Unsqueeze")
def many_axes_rule(node: NodeView) -> Replacement | Refusal | None:
    """Merges axes of a Transpose of more than 8 axes between two Reshapes, until TensorRT takes it."""
    before, after = node.rank(0) or 0, len(node.output_shape(0) or ())
    if max(before, after) <= _MOST:
        return None
    if node.op_type == "Reshape" and after <= _MOST:
        made = _narrowed(node)
        if made is not None:
            return made
    if before > _MOST and node.producer(0) is not None:
        return None  # what makes that value is told
    return Refusal(
        f"{node.op_type} of {before} axes to {after}",
        f"at most {_MOST} axes, or only transposes and functions of single elements between two Reshapes "
        "of which the last one has no more",
        "in the model's source, split the step in two: merge axes of size 1, and axes that stay neighbours, with a reshape",
    )


def _narrowed(node: NodeView) -> Replacement | None:
    found = _before(node)
    if found is None:
        return None
    maker, perm, functions = found
    w = Writer(node)
    sizes = _sizes(maker, w)
    if sizes is None:
        return None
    data = w.value(maker.input(0))
    for one in reversed(functions):
        given = {a.name: one.attributes[a.name] for a in one.proto.attribute}
        data = w.write(one.op_type, data, *w.inputs(*one.inputs[1:]), **given)
    kept = [axis for axis, size in enumerate(sizes) if size != 1]
    data = _transposed(w, data, [sizes[axis] for axis in kept], [kept.index(p) for p in perm if p in kept])
    target = _target(node, w, [sizes[p] for p in perm])
    if target is None:
        return None
    result = w.Reshape(data, target, **node.own("allowzero"))
    return Replacement(w.finish(result), f"Transpose of {len(perm)} axes as one of at most {_MOST}")


def _before(node: NodeView) -> tuple[NodeView, list[int], list[NodeView]] | None:
    """The node that makes many axes of few; the transposition from there; the functions on the way, the last one first."""
    perm = list(range(node.rank(0) or 0))
    functions: list[NodeView] = []
    maker = node.maker(0)
    while maker is not None and maker.rank(0) == len(perm):
        if maker.is_a("Transpose"):
            order = maker.attributes.get("perm") or list(range(len(perm)))[::-1]
            perm = [order[p] for p in perm]
        elif maker.is_a(*_FUNCTIONS) and all(_is_number(maker, i) for i in range(1, len(maker.inputs))):
            functions.append(maker)
        else:
            return None
        maker = maker.maker(0)
    few = maker is not None and (maker.rank(0) or _MOST + 1) <= _MOST
    return (maker, perm, functions) if maker is not None and few else None


def _is_number(node: NodeView, index: int) -> bool:
    value = node.constant(index)
    return not node.input(index) or (value is not None and value.size == 1 and value.ndim <= _MOST)


def _sizes(maker: NodeView, w: Writer) -> list[Size] | None:
    """The sizes that a Reshape or an Unsqueeze gives its axes; None unless they are known to be positive."""
    shape = maker.output_shape(0)
    if shape is None or not maker.is_a("Reshape", "Unsqueeze"):
        return None
    unknown = [axis for axis, size in enumerate(shape) if size is None]
    sizes: list[Size] = [_REST if size is None else size for size in shape]
    if 0 in sizes or len(unknown) <= 1:
        return None if 0 in sizes else sizes
    if maker.is_a("Unsqueeze"):
        left = [axis for axis, size in enumerate(maker.shape(0) or ()) if size is None]
        found = [w.size(w.value(maker.input(0)), axis) for axis in left]
        return (
            [found.pop(0) if size == _REST else size for size in sizes] if len(left) == len(unknown) else None
        )
    target, joined = maker.constant(1), maker.maker(1)
    for axis in unknown:
        if target is not None:
            value: int | None = int(target[axis])
        elif joined is not None and joined.is_a("Concat") and len(joined.inputs) == len(shape):
            part = joined.constant(axis)
            value = None if part is None else int(part.item())
        else:
            return None
        if value == 0:
            sizes[axis] = w.size(w.value(maker.input(0)), axis)
        elif value is None and joined is not None:
            sizes[axis] = w.value(joined.input(axis))
    return sizes


def _target(node: NodeView, w: Writer, sizes: Sequence[Size]) -> Value | list[int] | None:
    """The target of the last Reshape with its zeros replaced by sizes; None if two sizes would be unknown."""
    target = node.constant(1)
    if target is None or 0 not in target or node.attributes.get("allowzero", 0):
        return w.x[1]
    copied = [int(n) if n else sizes[i] for i, n in enumerate(target)]
    if copied.count(_REST) > 1:
        known = [size for size in sizes if isinstance(size, int) and size != _REST]
        told = [size for size in copied if isinstance(size, int) and size != _REST]
        if len(known) < len(sizes) - 1:
            return None
        copied[target.tolist().index(_REST)] = prod(known) // prod(told)
    return _vector(w, copied)


def _transposed(w: Writer, data: Value, sizes: Sequence[Size], perm: Sequence[int]) -> Value:
    """Transposes axes of these sizes by perm. data: their elements in any shape."""
    w.expect(f"a Transpose of {len(perm):,} axes", nodes=3 * len(perm))
    sizes, perm = _merged(w, sizes, perm)
    while len(perm) > _MOST:
        moved = [axis for axis in range(len(perm)) if axis != perm[1]]
        moved.insert(moved.index(perm[0]) + 1, perm[1])
        data = _written(w, data, *_merged(w, sizes, moved))
        sizes, perm = _merged(w, [sizes[axis] for axis in moved], [moved.index(axis) for axis in perm])
    return _written(w, data, sizes, perm)


def _written(w: Writer, data: Value, sizes: Sequence[Size], perm: Sequence[int]) -> Value:
    data = w.Reshape(data, _vector(w, sizes))
    return data if list(perm) == sorted(perm) else w.Transpose(data, perm=list(perm))


def _merged(w: Writer, sizes: Sequence[Size], perm: Sequence[int]) -> tuple[list[Size], list[int]]:
    """Merges axes that stay neighbours. Returns the new sizes and perm."""
    runs: list[list[int]] = []
    for axis in perm:
        if runs and runs[-1][-1] + 1 == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ahead = sorted(runs)
    return [_product(w, [sizes[axis] for axis in run]) for run in ahead], [ahead.index(run) for run in runs]


def _product(w: Writer, sizes: Sequence[Size]) -> Size:
    numbers = [size for size in sizes if isinstance(size, int)]
    if _REST in numbers:
        return _REST
    result: Size = prod(numbers)
    for size in sizes:
        if isinstance(size, Value):
            result = size if result == 1 else w.Mul(size, result if isinstance(result, Value) else [result])
    return result


def _vector(w: Writer, sizes: Sequence[Size]) -> Value | list[int]:
    if all(isinstance(size, int) for size in sizes):
        return [size for size in sizes if isinstance(size, int)]
    return w.Concat(*[[size] if isinstance(size, int) else size for size in sizes], axis=0)
