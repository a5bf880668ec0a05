"""Rewrites a Loop that repeats each slice of a tensor, as PyTorch's older exporter writes repeat_interleave."""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.control_flow.body_reader import BodyReader, OtherLoopError
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues, RunValue
from trtsmith.converter.rewrite.rules.control_flow.resized_images import every_run

_RUN = RunValue("", 1, 0)


class _Reader(BodyReader):
    """Reads the Loop backwards."""

    def __init__(self, loop: NodeView) -> None:
        super().__init__(LoopValues(loop, loop.graph("body")))
        self._loop = loop

    def read(self) -> tuple[str, str, int]:
        """The tensor, the repeat counts of its slices, and the axis of the slices."""
        loop, values = self._loop, self._values
        self._hold(len(loop.inputs) == 3 and len(loop.outputs) == 1 and every_run(values))
        self._outside(loop.inputs[2], "SequenceEmpty")
        state, part = self._made(values.body.output[1].name, "SequenceInsert").input
        self._hold(state == values.body.input[2].name)
        reshape = self._made(part, "Reshape")
        expand = self._made(reshape.input[0], "Expand")
        unsqueeze = self._made(expand.input[0], "Unsqueeze")
        data, axis = self._slice_of_run(unsqueeze.input[0])
        self._hold(self._numbers(unsqueeze.input[1]) == [axis + 1])
        repeats = self._times(expand.input[1], axis, self._sizes(data, axis))
        sizes = self._sizes(data, axis)
        sizes[axis] = -1
        target = self._numbers(reshape.input[1])
        self._hold(
            len(target) == len(sizes) and not any(a.name == "allowzero" and a.i for a in reshape.attribute)
        )
        # A zero keeps the size at its place, and Expand has the slice's own only before the new axis.
        kept = (
            want == own or (want == 0 and at < axis)
            for at, (want, own) in enumerate(zip(target, sizes, strict=True))
        )
        self._hold(all(kept))
        return data, repeats, axis

    def _times(self, name: str, axis: int, sizes: list[int | None]) -> str:
        """The repeat counts, from the shape of an Expand that changes the new axis only."""
        where = self._values.makers.get(name)
        if where is not None and where.op_type == "Where":  # -1 becomes 1, and is no number of times
            self._ones(where.input[1])
            name = where.input[2]
            compared = self._made(where.input[0], "Equal").input
            self._hold(compared[0] == name)
            self._minus_ones(compared[1])
        before: list[int] = []
        found: list[tuple[str, int]] = []
        after: list[int] = []
        for piece in self._made(name, "Concat").input:
            if self._values.constant(piece) is None:
                found.append(self._slice_of_run(piece))
            else:
                (after if found else before).extend(self._numbers(piece))
        kept = [*sizes[:axis], 1, *sizes[axis + 1 :]]
        self._hold(
            len(found) == 1
            and found[0][1] == 0
            and len(before) == axis + 1
            and len(before) + len(after) == len(sizes)
        )
        self._hold(all(size in (1, -1, own) for size, own in zip([*before, *after], kept, strict=True)))
        return found[0][0]

    def _slice_of_run(self, name: str) -> tuple[str, int]:
        """The tensor and axis whose slice at the run's index a SequenceAt takes."""
        sequence, position = self._made(name, "SequenceAt").input
        self._hold(self._values.of(position) == _RUN)
        split = self._outside(sequence, "SplitToSequence")
        self._hold(len(split.input) == 2)
        self._ones(split.input[1])
        axis = next((a.i for a in split.attribute if a.name == "axis"), 0)
        return split.input[0], axis

    def counts(self, data: str, axis: int) -> bool:
        """Whether the Loop runs once for each slice."""
        count = self._loop.producer(0)
        while count is not None and count.op_type in ("Unsqueeze", "Reshape", "Squeeze", "Cast"):
            count = self._loop.producer_of(count.input[0])
        if count is None or count.op_type != "Gather":
            return False
        shape, at = self._loop.producer_of(count.input[0]), self._loop.constant_of(count.input[1])
        if shape is None or shape.op_type != "Shape" or shape.attribute or at is None:
            return False
        return shape.input[0] == data and at.tolist() in (axis, [axis])

    def _sizes(self, data: str, axis: int) -> list[int | None]:
        type_ = self._loop.type_of(data)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            raise OtherLoopError
        dims = type_.tensor_type.shape.dim
        self._hold(0 <= axis < len(dims))
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

    def _ones(self, name: str) -> None:
        maker = self._values.makers.get(name) or self._loop.producer_of(name)
        if maker is not None and maker.op_type == "ConstantOfShape":
            self._hold([onnx.numpy_helper.to_array(a.t).tolist() for a in maker.attribute] == [[1]])
        else:
            self._hold(set(self._numbers(name)) == {1})

    def _minus_ones(self, name: str) -> None:
        maker = self._values.makers.get(name)
        if maker is not None and maker.op_type == "Mul":
            self._ones(maker.input[0])
            name = maker.input[1]
        self._hold(set(self._numbers(name)) == {-1})

    def _outside(self, name: str, kind: str) -> onnx.NodeProto:
        return self._of_kind(self._loop.producer_of(name), kind)


@node_rule("repeated-slices", "ConcatFromSequence")
def repeated_slices_rule(node: NodeView) -> Replacement | None:
    """Rewrites Loops that repeat slices of a tensor (repeat_interleave of PyTorch's older exporter) as one Gather."""
    loop = node.maker(0)
    if loop is None or not loop.is_a("Loop"):
        return None
    try:
        reader = _Reader(loop)
        data, repeats, axis = reader.read()
    except (OtherLoopError, ValueError):  # a ValueError where there are more operands than that
        return None
    if (
        not reader.counts(data, axis)
        or node.attributes.get("axis") != axis
        or node.attributes.get("new_axis", 0)
    ):
        return None
    w = Writer(node)
    times = w.Cast(w.value(repeats), to=onnx.TensorProto.INT64)
    ends = w.CumSum(times, np.array(0))
    at = w.Range(np.array(0), w.ReduceSum(times, keepdims=0), np.array(1))
    before = w.Cast(w.GreaterOrEqual(w.Unsqueeze(at, axes=[1]), ends), to=onnx.TensorProto.INT64)
    number = w.ReduceSum(before, axes=[1], keepdims=0)
    return Replacement(w.finish(w.Gather(w.value(data), number, axis=axis)), "all slices at once")
