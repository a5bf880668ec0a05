"""Rewrites 16-bit attention with a float32 Softmax and a guard against NaN, for TensorRT-RTX.

PyTorch's attention gives zeros for a row of scores that is masked whole: Where (IsNaN (p), 0, p) with p = Softmax (scores).
In float32 between products of 16 bits, TensorRT-RTX takes this for its fused attention, and then fails to find the Softmax.
It fuses the attention without the guard, which goes where no row can be masked whole: without a mask, or with one that has
-3.4e38 for -inf. Where a mask that is added may close a row, zeros are chosen behind the attention, by the rows of the mask.
Both take products of the network as finite. Elsewhere the guard selects the other way round: Where (Not (IsNaN (p)), p, 0)
gives the same numbers, and builds, unfused.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto as T

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1", "1.7.1"),
        "fails to build attention in 16 bits whose Softmax in float32 has a guard against NaN",
        "builds, which end in mha_fusion.cpp: CHECK(is_softmax(op->operands()[0]->tensor()->producer()))",
    ),
)

_MOVES = ("Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")

_LOWEST = float(np.finfo(np.float32).min)

_LOWEST_HALF = -3e4
"""What a mask in float16 may hold: the lowest float16, -65504, and a score of -16 make -inf."""


@node_rule("guarded-softmax", "MatMul", faults=_FAULTS)
def guarded_softmax_rule(node: NodeView) -> Replacement | None:
    """Rewrites 16-bit attention with a guard against NaN behind its float32 Softmax."""
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16"):
        return None
    behind: list[NodeView] = []  # the guard, the last first
    guard = node.maker(0)
    while guard is not None and guard.is_a("Cast", *_MOVES):
        behind.append(guard)
        guard = guard.maker(0)
    softmax = None if guard is None else _guarded(guard)
    if guard is None or softmax is None:
        return None
    open_rows = _has_open_rows(softmax, 0)
    mask = None if open_rows or len(behind) > 1 else added_mask(softmax)
    w = Writer(node)
    value = w.value(softmax.output(0))
    if not open_rows and mask is None:
        value = w.Where(w.Not(guard.input(0)), value, guard.input(1))
    for step in reversed(behind):
        given = {a.name: step.attributes[a.name] for a in step.proto.attribute}
        value = w.write(step.op_type, value, *step.inputs[1:], **given)
    value = w.MatMul(value, w.x[1])
    how = "without the guard: no row is masked whole" if open_rows else "with the guard's choice reversed"
    if mask is not None:
        closed = w.Less(w.reduce("ReduceMax", w.value(mask), [-1]), _LOWEST)
        value = w.Where(closed, w.number(0, dtype), value)
        how = "with zeros chosen behind it, by the mask"
    return Replacement(w.finish(value), f"attention {how}", notes=(node.because(_FAULTS),))


def _guarded(guard: NodeView) -> NodeView | None:
    """The Softmax p over the last axis in Where(IsNaN(p), 0, p), in float32; None for other forms."""
    test, softmax, instead = guard.maker(0), guard.maker(2), guard.constant(1)
    if not guard.is_a("Where") or test is None or softmax is None or instead is None:
        return None
    if not test.is_a("IsNaN") or test.input(0) != guard.input(2) or not softmax.is_a("Softmax"):
        return None
    rank = softmax.rank(0)
    last = rank is not None and softmax.attributes["axis"] in (-1, rank - 1)
    return softmax if last and guard.dtype(2) == "float32" and not instead.any() else None


def added_mask(softmax: NodeView) -> str | None:
    """Returns the mask that is added to a matrix product; only such a mask can set a whole row of scores to -inf."""
    added = softmax.maker(0)
    if added is None or not added.is_a("Add"):
        return None
    masks = (i for i in (0, 1) if added.rank(i) and _is_product(added, 1 - i))
    return next((added.input(i) for i in masks), None)


def _has_open_rows(node: NodeView, index: int) -> bool:
    """Whether every row of the scores has a finite element, if matrix products are finite."""
    maker = node.maker(index)
    if maker is None or _is_product(node, index):
        return maker is not None
    if maker.is_a("Where"):
        return all(_is_product(maker, i) or _is_open(maker, i) for i in (1, 2))
    if maker.is_a("Add"):  # of one mask: two that are the lowest number make -inf
        return any(_is_product(maker, i) and _is_open(maker, 1 - i, whole=False) for i in (0, 1))
    return _keeps_values(maker) and _has_open_rows(maker, 0)


def _is_product(node: NodeView, index: int) -> bool:
    """Whether the input is a matrix product, perhaps scaled."""
    maker = node.maker(index)
    if maker is None or maker.is_a("MatMul"):
        return maker is not None
    if maker.is_a("Mul", "Div") and maker.is_constant(1):
        return _is_product(maker, 0)
    return _keeps_values(maker) and _is_product(maker, 0)


def _is_open(node: NodeView, index: int, whole: bool = True) -> bool:
    """Whether all elements of a mask are finite (`whole`), or at least one in each row."""
    values, maker = node.constant(index), node.maker(index)
    if values is not None:
        lowest = _LOWEST_HALF if values.dtype == np.float16 else -np.inf
        numbers = np.atleast_1d(np.isfinite(values) & (values > lowest))
        return bool(numbers.all() if whole else numbers.any(-1).all())
    if maker is None or not (maker.is_a("Where") or _keeps_values(maker)):
        return False
    if maker.op_type == "Where":
        return _is_open(maker, 1) and _is_open(maker, 2)
    return _is_open(maker, 0, whole or not maker.is_a("Cast", "Expand", "Identity"))


def _keeps_values(node: NodeView) -> bool:
    return node.is_a(*_MOVES) or (node.is_a("Cast") and node.attributes["to"] == T.FLOAT)
