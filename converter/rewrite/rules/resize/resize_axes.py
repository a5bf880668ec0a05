"""Writes a Resize along one axis: gathers of the neighbours and a weighted sum, or a product with a matrix of weights."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.resize import resize_weights
from trtsmith.converter.rewrite.rules.resize.resize_graph import DynamicAxis
from trtsmith.converter.rewrite.rules.resize.resize_plan import Stretch
from trtsmith.converter.rewrite.rules.resize.resize_weights import Sampling

_GATHERED = 8
"""Neighbours up to which they are gathered, in full float32; more become a matrix product."""


def along(
    w: Writer, data: Value, s: Sampling, part: Stretch, rank: int, work: str, masks: list[Value]
) -> tuple[Value, bool]:
    """One axis; whether by a matrix product. A mask of what lies outside goes to `masks`, where that counts."""
    crop = s.coordinates == "tf_crop_and_resize"
    column = [1] * rank
    column[part.axis] = -1
    if not part.known:
        return _along_computed(w, data, s, part, rank, work, masks)
    assert part.before is not None and part.after is not None and part.scale is not None
    x = resize_weights.places(s, part.before, part.after, part.scale, part.roi)
    outside = (x < 0) | (x > part.before - 1)
    if crop and outside.any():
        masks.append(w.constant(outside.reshape(column)))
    if s.mode == "nearest":
        index = resize_weights.nearest_index(s, x, part.before)
        return w.Gather(data, index, axis=part.axis), False
    index, weight = resize_weights.taps(s, x, part.before, part.scale)
    typed = np.float64 if work == "float64" else np.float32
    if index.shape[1] > _GATHERED:
        dense = resize_weights.matrix(index, weight, part.before)
        return _multiplied(w, data, w.constant(dense.astype(typed)), part.axis, rank), True
    terms = []
    for i in range(index.shape[1]):
        if weight[:, i].any():
            taken = w.Gather(data, index[:, i], axis=part.axis)
            terms.append(w.Mul(taken, weight[:, i].reshape(column).astype(typed)))
    return w.Sum(*terms), False


def _along_computed(
    w: Writer, data: Value, s: Sampling, part: Stretch, rank: int, work: str, masks: list[Value]
) -> tuple[Value, bool]:
    others = [i for i in range(rank) if i != part.axis]
    axis = DynamicAxis(w, part)
    x = axis.places(s, part.roi)
    if s.coordinates == "tf_crop_and_resize":
        masks.append(w.unsqueeze(axis.outside(x), others))
    if s.mode == "nearest":
        return w.Gather(data, axis.nearest_index(s, x), axis=part.axis), False
    typed = (lambda v: w.Cast(v, to=work)) if work != "float32" else (lambda v: v)
    if s.antialias:
        index, weight = axis.matrix(s, x)
        taken = w.Gather(data, index, axis=part.axis)
        return _multiplied(w, taken, typed(weight), part.axis, rank), True
    terms = []
    for index, weight in axis.taps(s, x):
        taken = w.Gather(data, index, axis=part.axis)
        terms.append(w.Mul(taken, w.unsqueeze(typed(weight), others)))
    return w.Sum(*terms), False


def _multiplied(w: Writer, data: Value, matrix: Value, axis: int, rank: int) -> Value:
    """matrix [out, in] times data along an axis."""
    if axis == rank - 2:
        return w.MatMul(matrix, data)
    turned = w.Transpose(matrix, perm=[1, 0])
    if axis == rank - 1:
        return w.MatMul(data, turned)
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]
    return w.Transpose(w.MatMul(w.Transpose(data, perm=order), turned), perm=back)
