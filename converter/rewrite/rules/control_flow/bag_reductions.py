"""Rewrites a Loop that sums up slices of rows between offsets, as PyTorch's exporters write EmbeddingBag.

The rows are read once, and each bag reduces them where it has them. TensorRT takes no Slice of another length in each run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.resized_images import every_run
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import Count, read_condition

_NEUTRAL = {"ReduceSum": 0.0, "ReduceMean": 0.0, "ReduceMax": -np.inf}
_MOST_STEPS = 50
"""Nodes that make rows of slices: exporters write five. Two that multiply a value by itself would be read four times."""

_RESHAPES = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")


class _OtherError(Exception):
    """The Loop does something else."""


@dataclass(frozen=True)
class _Offset:
    """In each run, the element of a vector at the run's number and `shift`."""

    vector: str
    shift: int

    def all(self, w: Writer, count: Value) -> Value:
        """Those of all runs, int64[count, 1]."""
        first = w.constant([self.shift])
        found = w.Slice(w.value(self.vector), first, w.Add(count, first), w.constant([0]))
        return w.Unsqueeze(w.Cast(found, to=onnx.TensorProto.INT64), axes=[1])


class _BagReader:
    """Reads the body of the Loop backwards, from the row of a run. Raises _OtherError for what is none of its kind.

    w:        writes the rows of all bags, of which a run has a slice.
    count:    the number of runs.
    guarded:  whether an empty bag has zeros.
    counted:  a tensor with as many rows as the divisor of the last bag's mean counts; "": it ends as others do.
    last_end: where the last bag ends; "": the same.
    """

    def __init__(self, w: Writer, loop: NodeView, values: LoopValues, count: str) -> None:
        self.w = w
        self._loop = loop
        self._values = values
        self._count = count
        self.makers: dict[str, onnx.NodeProto] = values.makers  # of its branches, too, as they are entered
        self.start: _Offset | None = None
        self.end: _Offset | None = None
        self.kind = ""
        self.keepdims = self.guarded = False
        self.counted = self.last_end = ""
        self._steps = 0

    def read(self, row: str) -> tuple[Value, int]:
        """The rows of all bags, and their rank."""
        maker = self._made(row)
        self.guarded = maker.op_type == "If"
        if self.guarded:
            maker = self._of_full_bag(maker)
        if maker.op_type == "If":
            maker = self._mean(maker)
        if maker.op_type not in _NEUTRAL:
            raise _OtherError
        self.kind = maker.op_type
        self.keepdims = all(a.i for a in maker.attribute if a.name == "keepdims")
        return self._reduced(maker)

    def _reduced(self, maker: onnx.NodeProto) -> tuple[Value, int]:
        axes = [[a.ints[0]] for a in maker.attribute if a.name == "axes" and len(a.ints) == 1]
        if len(maker.input) == 2:
            axes = [np.ravel(self._constant(maker.input[1])).tolist()]
        if axes != [[0]]:
            raise _OtherError
        return self._whole(maker.input[0])

    def _of_full_bag(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """What makes the row of a bag that is not empty; an empty one has zeros."""
        graphs = {a.name: a.g for a in node.attribute}
        empty, test = graphs["then_branch"], self._made(node.input[0])
        name = empty.output[0].name
        zeros = [onnx.numpy_helper.to_array(t) for t in empty.initializer if t.name == name]
        zeros += [
            onnx.numpy_helper.to_array(a.t) for one in empty.node for a in one.attribute if name in one.output
        ]
        if test.op_type != "Equal" or len(zeros) != 1 or zeros[0].any():
            raise _OtherError
        self.start, self.end = (self._offset(operand) for operand in test.input)
        return self._entered(graphs["else_branch"])

    def _mean(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The mean where the last bag has its sum, by the number of indices behind its start, if there are any."""
        last, mean = self._of_last_run(node)
        if (last.op_type, mean.op_type) != ("If", "ReduceMean"):
            raise _OtherError
        graphs = {a.name: a.g for a in last.attribute}
        quotient, plain = (self._entered(graphs[name]) for name in ("then_branch", "else_branch"))
        positive, divisor = self._made(last.input[0]), self._made(quotient.input[1])
        count = self._made(divisor.input[0])
        size, total = self._made(count.input[0]), self._made(plain.input[0])
        kinds = [one.op_type for one in (quotient, plain, positive, divisor, count, size, total)]
        whole = {a.name: a.i for a in size.attribute} == {"start": 0, "end": 1}
        same = quotient.input[0] == plain.input[0] and positive.input[0] == divisor.input[0]
        if (
            kinds != ["Div", "Identity", "Greater", "Cast", "Sub", "Shape", "ReduceSum"]
            or not same
            or not whole
        ):
            raise _OtherError
        if self._constant(positive.input[1]).any() or self._offset(count.input[1]) != self.start:
            raise _OtherError
        if total.input[0] != mean.input[0]:
            raise _OtherError
        self._reduced(total)
        self.counted = self._outer(size.input[0])
        return mean

    def _of_last_run(self, node: onnx.NodeProto) -> tuple[onnx.NodeProto, onnx.NodeProto]:
        """What an If makes in the last run, and in the others."""
        graphs = {a.name: a.g for a in node.attribute}
        made = [self._entered(graphs[name]) for name in ("then_branch", "else_branch")]
        run, last = self._made(node.input[0]).input
        found = self._values.of(last)
        ends = found is not None and (found.base, found.step, found.offset) == (self._count, 0, -1)
        if self._made(node.input[0]).op_type != "Equal" or not ends or self._shift(run) != 0:
            raise _OtherError
        return made[0], made[1]

    def _entered(self, graph: onnx.GraphProto) -> onnx.NodeProto:
        """What makes the output of a branch, whose nodes are read from now on."""
        makers = {name: node for node in graph.node for name in node.output}
        if not self.makers.keys().isdisjoint(makers):
            raise _OtherError
        self.makers.update(makers)
        return self._made(graph.output[0].name)

    def _whole(self, name: str) -> tuple[Value, int]:
        """The value of which this one is the slice of a run, and its rank."""
        w, maker = self.w, self._made(name)
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _OtherError
        if maker.op_type == "Slice":
            return self._sliced(maker)
        if maker.op_type == "If":
            last, others = self._of_last_run(maker)
            if last.op_type != others.op_type or last.input[:2] != others.input[:2] or len(last.input) != 3:
                raise _OtherError
            self.last_end = self._outer(last.input[2])
            return self._sliced(others)
        if maker.op_type == "Gather" and not any(a.i for a in maker.attribute if a.name == "axis"):
            table, (index, rank) = self._outer(maker.input[0]), self._whole(maker.input[1])
            return w.Gather(w.value(table), index, axis=0), self._rank(table) + rank - 1
        if maker.op_type == "Mul":
            (a, first), (b, second) = (self._whole(operand) for operand in maker.input)
            return w.Mul(a, b), max(first, second)
        if maker.op_type == "Unsqueeze" and len(maker.input) == 2:
            value, rank = self._whole(maker.input[0])
            if np.ravel(self._constant(maker.input[1])).tolist() == [1]:
                return w.Unsqueeze(value, axes=[1]), rank + 1
        raise _OtherError

    def _sliced(self, maker: onnx.NodeProto) -> tuple[Value, int]:
        data, start, end, *more = maker.input
        ends = self._offset(start), self._offset(end)
        axes, steps = (np.ravel(self._constant(name)).tolist() for name in [*more, "", ""][:2])
        if (
            axes not in ([], [0])
            or steps not in ([], [1])
            or (self.start or ends[0], self.end or ends[1]) != ends
        ):
            raise _OtherError
        self.start, self.end = ends
        return self.w.value(self._outer(data)), self._rank(data)

    def _offset(self, name: str) -> _Offset:
        maker = self._made(name)
        while maker.op_type in _RESHAPES:
            maker = self._made(maker.input[0])
        vector = self._outer(maker.input[0])
        shift, *last = (self._shift(read) for read in maker.input[1:3])
        whole = maker.op_type == "Gather" or (maker.op_type == "Slice" and last == [shift + 1])
        if not whole or shift < 0 or self._rank(vector) != 1:
            raise _OtherError
        return _Offset(vector, shift)

    def _shift(self, name: str) -> int:
        """How far a number is above that of the run."""
        found = self._values.of(name)
        if found is None or found.base or found.step != 1:
            raise _OtherError
        return found.offset

    def _outer(self, name: str) -> str:
        """A value from outside of the Loop."""
        values = self._values
        if name in self.makers or name in values.initial or name in (values.iteration, values.condition):
            raise _OtherError
        return name

    def _rank(self, name: str) -> int:
        type_ = self._loop.type_of(name)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            raise _OtherError
        return len(type_.tensor_type.shape.dim)

    def _made(self, name: str) -> onnx.NodeProto:
        maker = self.makers.get(name)
        if maker is None or maker.domain:
            raise _OtherError
        return maker

    def _constant(self, name: str) -> np.ndarray:
        value = self._values.constant(name) if name else np.zeros(0)
        if value is None:
            raise _OtherError
        return value


@node_rule("bag-reductions", "ConcatFromSequence", "Loop")
def bag_reductions_rule(node: NodeView) -> Replacement | None:
    """Loops that reduce rows between offsets (EmbeddingBag) become one reduction of all rows."""
    loop = node if node.is_a("Loop") else node.maker(0)
    if loop is None or not loop.is_a("Loop"):
        return None
    values = LoopValues(loop, loop.graph("body"))
    try:
        row, count = (_collected if node is loop else _joined)(node, loop, values)
        reader = _BagReader(Writer(node), loop, values, count)
        rows, rank = reader.read(row)
    except (_OtherError, ValueError):  # a ValueError where there are fewer operands than that
        return None
    type_ = node.type_of(node.output(0))
    if type_ is None or not type_.tensor_type.elem_type or reader.keepdims is (node is loop):
        return None
    return _written(reader, rows, rank, count, type_.tensor_type.elem_type)


def _collected(node: NodeView, loop: NodeView, values: LoopValues) -> tuple[str, str]:
    """The row of a run, and the number of runs, of a Loop that collects the rows."""
    if len(loop.inputs) > 2 or len(loop.outputs) != 1 or not every_run(values) or loop.opset < 13:
        raise _OtherError
    return values.body.output[1].name, loop.input(0)


def _joined(node: NodeView, loop: NodeView, values: LoopValues) -> tuple[str, str]:
    """The same of a Loop that inserts rows, of one bag each, into a sequence."""
    count = read_condition(values, loop.constant(0)).first  # false first in the last run
    at = loop.outputs.index(node.input(0))
    state, row = values.makers[values.body.output[at + 1].name].input
    empty = loop.producer_of(values.initial[state]) if state in values.initial else None
    if not isinstance(count, Count) or (count.minus, count.offset, count.step) != ("", -1, 1):
        raise _OtherError
    start, first = loop.constant(1), loop.producer(1)
    starts = start.all() if start is not None else first is not None and _has_runs(loop, first, count.plus)
    if loop.input(0) or not starts or empty is None or empty.op_type != "SequenceEmpty" or loop.opset < 13:
        raise _OtherError
    if node.attributes.get("axis") != 0 or node.attributes.get("new_axis", 0) or values.keeps(state):
        raise _OtherError
    return row, count.plus


def _has_runs(loop: NodeView, condition: onnx.NodeProto, count: str) -> bool:
    """Whether a condition says that there are runs."""
    zero = loop.constant_of(condition.input[0]) if condition.op_type == "Less" else None
    return zero is not None and not zero.any() and condition.input[1] == count


def _written(reader: _BagReader, rows: Value, rank: int, count: str, elem: int) -> Replacement:
    w = reader.w
    assert reader.start is not None and reader.end is not None
    bags = w.Reshape(w.Cast(w.value(count), to=onnx.TensorProto.INT64), shape=[1])
    start, end = reader.start.all(w, bags), reader.end.all(w, bags)
    is_last = w.Equal(w.Unsqueeze(w.arange(bags), axes=[1]), w.Sub(bags, [1]))
    until = w.Where(is_last, w.value(reader.last_end), end) if reader.last_end else end
    place = w.Unsqueeze(w.arange(w.size(rows, 0)), axes=[0])
    inside = w.unsqueeze(w.And(w.Not(w.Less(place, start)), w.Less(place, until)), list(range(2, rank + 1)))
    neutral = w.Cast(w.constant(_NEUTRAL[reader.kind]), to=elem)
    kept = w.Where(inside, w.Unsqueeze(rows, axes=[0]), neutral)
    kind = "ReduceSum" if reader.kind == "ReduceMean" else reader.kind
    result = w.reduce(kind, kept, [1], keepdims=False)
    more = list(range(2, rank))
    if reader.kind == "ReduceMean":
        behind = w.Where(is_last, w.size(w.value(reader.counted), 0), end) if reader.counted else end
        size = w.Sub(behind, start)
        result = w.Div(
            result, w.Cast(w.unsqueeze(w.Max(size, [1]) if reader.guarded else size, more), to=elem)
        )
    elif reader.guarded:
        zero = w.Cast(w.constant(0.0), to=elem)
        result = w.Where(w.unsqueeze(w.Equal(start, end), more), zero, result)
    return Replacement(w.finish(result), "all bags at once")
