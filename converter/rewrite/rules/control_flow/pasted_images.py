"""Rewrites a Loop that pastes resized images into zeros as two products for all boxes at once.

torchvision's Mask R-CNN is exported so: each run resizes a mask to the size of its box, cuts off what lies outside of the
image, puts zeros around it, and appends it to a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_states import appended
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.resized_images import (
    NUMERICS,
    ResizedImages,
    every_run,
    read_resize,
    varying_resize,
)
from trtsmith.converter.rewrite.rules.control_flow.run_numbers import RunNumbers, chosen


@dataclass(frozen=True)
class _Side:
    """How the resized image lies along the rows or columns of a larger one: place p shows its place p + shift for low <= p <
    high, and zero elsewhere. int64, one number per run or one for all.
    """

    shift: Value
    low: Value
    high: Value
    size: Value


class _Placing:
    """Tracks where values of the body contain the resized image; rows and columns are their last two axes."""

    def __init__(
        self, w: Writer, values: LoopValues, numbers: RunNumbers, resize: onnx.NodeProto, image: ResizedImages
    ) -> None:
        self._w = w
        self._values = values
        self._numbers = numbers
        self._resize = resize
        self._image = image

    def of(self, name: str) -> Mapping[int, _Side] | None:
        """Rows by -2 and columns by -1; None for values that do not contain the image."""
        w, maker = self._w, self._values.makers.get(name)
        if maker is self._resize:
            nothing = w.constant([0])
            return {
                axis: _Side(nothing, nothing, size, size)
                for axis, size in zip((-2, -1), self._image.sizes, strict=True)
            }
        if maker is None or maker.domain not in ("", "ai.onnx"):
            return None
        if maker.op_type == "Concat":
            return self._between_zeros(maker)
        sides = self.of(maker.input[0]) if maker.input else None
        rank = len(self._values.dims(maker.input[0]) or ()) if maker.input else 0
        if sides is None or maker.op_type == "Identity":
            return sides
        if maker.op_type == "Cast":
            same = self._values.elem_type(maker.input[0]) == self._values.elem_type(name)
            return sides if same else None
        if maker.op_type == "Gather":  # the first of one batch, or of one channel
            dims, first = self._values.dims(maker.input[0]), self._values.constant(maker.input[1])
            axis = next((a.i for a in maker.attribute if a.name == "axis"), 0) % rank
            leads = dims is not None and axis < rank - 2 and dims[axis] == 1
            return sides if leads and first is not None and first.shape == () else None
        return self._sliced(maker, sides, rank) if maker.op_type == "Slice" and len(maker.input) > 3 else None

    def _sliced(
        self, maker: onnx.NodeProto, sides: Mapping[int, _Side], rank: int
    ) -> Mapping[int, _Side] | None:
        axes = self._values.constant(maker.input[3])
        steps = (
            self._values.constant(maker.input[4]) if len(maker.input) > 4 and maker.input[4] else np.array(1)
        )
        if axes is None or steps is None or (steps != 1).any():
            return None
        cut = dict(sides)
        for index, axis in enumerate(axes.reshape(-1).tolist()):
            axis = axis - rank if axis >= 0 else axis
            bounds = [self._numbers.of(name, index) for name in maker.input[1:3]]
            whole = [self._values.constant(name) for name in maker.input[1:3]]
            start, end = (None if value is None else int(value.reshape(-1)[index]) for value in whole)
            if start == 0 and end is not None and end >= 2**31 - 1:
                continue
            if axis not in cut or bounds[0] is None or bounds[1] is None:
                return None
            cut[axis] = self._cut(cut[axis], bounds[0], bounds[1])
        return cut

    def _cut(self, side: _Side, start: Value, end: Value) -> _Side:
        """Cuts from start to end as Slice does: negative bounds count from the end, all are clamped to the axis."""
        w, zero = self._w, self._w.constant([0])
        inside = []
        for bound in (start, end):
            bound = w.Where(w.Less(bound, zero), w.Add(bound, side.size), bound)
            inside.append(chosen(w, chosen(w, bound, zero, least=False), side.size, least=True))
        first, size = inside[0], chosen(w, w.Sub(inside[1], inside[0]), zero, least=False)
        return _Side(
            w.Add(side.shift, first),
            chosen(w, w.Sub(side.low, first), zero, least=False),
            chosen(w, w.Sub(side.high, first), size, least=True),
            size,
        )

    def _between_zeros(self, maker: onnx.NodeProto) -> Mapping[int, _Side] | None:
        w = self._w
        rank = len(self._values.dims(maker.output[0]) or ())
        axis = next(a.i for a in maker.attribute if a.name == "axis")
        axis = axis - rank if axis >= 0 else axis
        found: Mapping[int, _Side] | None = None
        before = w.constant([0])
        for name in maker.input:
            count = self._zeros(name, axis + rank)
            if count is None:
                sides = self.of(name)
                if sides is None or axis not in sides or found is not None:
                    return None
                side = sides[axis]
                moved = _Side(
                    w.Sub(side.shift, before), w.Add(side.low, before), w.Add(side.high, before), side.size
                )
                found, count = {**sides, axis: moved}, side.size
            before = w.Add(before, count)
        if found is None:
            return None
        return {**found, axis: replace(found[axis], size=before)}

    def _zeros(self, name: str, axis: int) -> Value | None:
        """The length of an axis of a tensor of zeros; None for other tensors."""
        maker = self._values.makers.get(name)
        if maker is None or maker.op_type != "ConstantOfShape":
            return None
        filled = [onnx.numpy_helper.to_array(a.t) for a in maker.attribute if a.name == "value"]
        return None if any(value.any() for value in filled) else self._numbers.of(maker.input[0], axis)


@node_rule("pasted-images", "Loop")
def pasted_images_rule(node: NodeView) -> Replacement | None:
    """Rewrites Loops that resize each image to its box and paste it into zeros as products with weight matrices."""
    body = node.graph("body")
    values = LoopValues(node, body)
    resize = varying_resize(values)
    if resize is None or len(node.inputs) != 3 or len(node.outputs) != 1 or not every_run(values):
        return None
    image = appended(values, body.input[2].name)
    if image is None:
        return None
    w = Writer(node)
    numbers = RunNumbers(w, values, w.Reshape(w.x[0], shape=[1]))
    images = read_resize(w, values, numbers, resize)
    if isinstance(images, str) or images.shape[0] != 1 or len(values.dims(image) or ()) != 2:
        return None
    sides = _Placing(w, values, numbers, resize, images).of(image)
    if sides is None:
        return None
    matrices = []
    for axis in (0, 1):
        side = sides[axis - 2]
        places = w.Unsqueeze(w.arange(w.size(w.x[2], 1 + axis)), axes=[0])
        low, high, shift = (w.Unsqueeze(value, axes=[1]) for value in (side.low, side.high, side.shift))
        inside = w.And(w.Not(w.Less(places, low)), w.Less(places, high))
        weights = images.weights(w, axis, w.Add(places, shift))
        matrices.append(w.Where(w.Unsqueeze(inside, axes=[2]), weights, 0.0))
    rows, columns = matrices
    stack = w.Squeeze(images.stack, axes=[1])
    pasted = w.MatMul(w.MatMul(rows, stack), w.Transpose(columns, perm=[0, 2, 1]))
    return Replacement(
        w.finish(pasted), "images resized and pasted by two products for all runs", numerics=NUMERICS
    )
