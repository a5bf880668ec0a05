"""Rewrites a Loop that sums up slices of rows between offsets, as PyTorch's exporters write EmbeddingBag.

All rows are read once, and each bag reduces those between its offsets. TensorRT takes no Slice of another length in each
run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.body_reader import BodyReader, OtherLoopError
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.resized_images import every_run
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import Count, read_condition

_NEUTRAL = {"ReduceSum": 0.0, "ReduceMean": 0.0, "ReduceMax": -np.inf}
_MOST_STEPS = 50
"""Nodes that are read for the rows of a bag. Exporters write five; a chain of n squares would be read 2^n times."""

_RESHAPES = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class _Offset:
    """The element of a vector at the number of the run plus `shift`."""

    vector: str
    shift: int

    def all(self, w: Writer, count: Value) -> Value:
        """Those of all runs, int64[count, 1]."""
        first = w.constant([self.shift])
        found = w.Slice(w.value(self.vector), first, w.Add(count, first), w.constant([0]))
        return w.Unsqueeze(w.Cast(found, to=onnx.TensorProto.INT64), axes=[1])


class _BagReader(BodyReader):
    """Reads the body backwards from the row of a run, into branches where there are any.

    w:        writes the rows of all bags, of which a run has a slice.
    count:    the number of runs.
    guarded:  whether an empty bag has zeros.
    counted:  a tensor with as many rows as the divisor of the last bag's mean counts; "": it ends as others do.
    last_end: where the last bag ends; "": the same.
    """

    def __init__(self, w: Writer, loop: NodeView, values: LoopValues, count: str) -> None:
        super().__init__(values)
        self.w = w
        self._loop = loop
        self._count = count
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
        self._hold(maker.op_type in _NEUTRAL)
        self.kind = maker.op_type
        self.keepdims = all(a.i for a in maker.attribute if a.name == "keepdims")
        return self._reduced(maker)

    def _reduced(self, maker: onnx.NodeProto) -> tuple[Value, int]:
        axes = [[a.ints[0]] for a in maker.attribute if a.name == "axes" and len(a.ints) == 1]
        if len(maker.input) == 2:
            axes = [self._numbers(maker.input[1])]
        self._hold(axes == [[0]])
        return self._whole(maker.input[0])

    def _of_full_bag(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """What makes the row of a bag that is not empty; an empty one has zeros."""
        graphs = {a.name: a.g for a in node.attribute}
        empty, test = graphs["then_branch"], self._made(node.input[0], "Equal")
        name = empty.output[0].name
        zeros = [onnx.numpy_helper.to_array(t) for t in empty.initializer if t.name == name]
        zeros += [
            onnx.numpy_helper.to_array(a.t) for one in empty.node for a in one.attribute if name in one.output
        ]
        self._hold(len(zeros) == 1 and not zeros[0].any())
        self.start, self.end = (self._offset(operand) for operand in test.input)
        return self._entered(graphs["else_branch"])

    def _mean(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The mean of a bag. That of the last one is its sum by the number of indices behind its start, if there are any."""
        last, mean = self._of_last_run(node)
        self._hold((last.op_type, mean.op_type) == ("If", "ReduceMean"))
        graphs = {a.name: a.g for a in last.attribute}
        quotient, plain = (self._entered(graphs[name]) for name in ("then_branch", "else_branch"))
        self._hold((quotient.op_type, plain.op_type) == ("Div", "Identity"))
        positive, divisor = self._made(last.input[0], "Greater"), self._made(quotient.input[1], "Cast")
        count, total = self._made(divisor.input[0], "Sub"), self._made(plain.input[0], "ReduceSum")
        size = self._made(count.input[0], "Shape")
        self._hold({a.name: a.i for a in size.attribute} == {"start": 0, "end": 1})
        self._hold(quotient.input[0] == plain.input[0] and positive.input[0] == divisor.input[0])
        self._hold(not any(self._numbers(positive.input[1])) and self._offset(count.input[1]) == self.start)
        self._hold(total.input[0] == mean.input[0])
        self._reduced(total)
        self.counted = self._outer(size.input[0])
        return mean

    def _of_last_run(self, node: onnx.NodeProto) -> tuple[onnx.NodeProto, onnx.NodeProto]:
        """What an If makes in the last run, and in the others."""
        graphs = {a.name: a.g for a in node.attribute}
        made = [self._entered(graphs[name]) for name in ("then_branch", "else_branch")]
        run, last = self._made(node.input[0], "Equal").input
        found = self._values.of(last)
        ends = found is not None and (found.base, found.step, found.offset) == (self._count, 0, -1)
        self._hold(ends and self._shift(run) == 0)
        return made[0], made[1]

    def _entered(self, graph: onnx.GraphProto) -> onnx.NodeProto:
        """What makes the output of a branch, whose nodes are read from now on."""
        makers = {name: node for node in graph.node for name in node.output}
        self._hold(self._values.makers.keys().isdisjoint(makers))
        self._values.makers.update(makers)
        return self._made(graph.output[0].name)

    def _whole(self, name: str) -> tuple[Value, int]:
        """The rows of all runs, where this value has those of one; and their rank."""
        w, maker = self.w, self._made(name, "Slice", "If", "Gather", "Mul", "Unsqueeze")
        self._steps += 1
        self._hold(self._steps <= _MOST_STEPS)
        if maker.op_type == "Slice":
            return self._sliced(maker)
        if maker.op_type == "If":
            last, others = self._of_last_run(maker)
            self._hold(
                last.op_type == others.op_type and last.input[:2] == others.input[:2] and len(last.input) == 3
            )
            self.last_end = self._outer(last.input[2])
            return self._sliced(others)
        if maker.op_type == "Gather":
            self._hold(not any(a.i for a in maker.attribute if a.name == "axis"))
            table, (index, rank) = self._outer(maker.input[0]), self._whole(maker.input[1])
            return w.Gather(w.value(table), index, axis=0), self._rank(table) + rank - 1
        if maker.op_type == "Mul":
            (a, first), (b, second) = (self._whole(operand) for operand in maker.input)
            return w.Mul(a, b), max(first, second)
        value, rank = self._whole(maker.input[0])
        self._hold(len(maker.input) == 2 and self._numbers(maker.input[1]) == [1])
        return w.Unsqueeze(value, axes=[1]), rank + 1

    def _sliced(self, maker: onnx.NodeProto) -> tuple[Value, int]:
        data, start, end, *more = self._of_kind(maker, "Slice").input
        ends = self._offset(start), self._offset(end)
        axes, steps = ([] if not name else self._numbers(name) for name in [*more, "", ""][:2])
        self._hold(axes in ([], [0]) and steps in ([], [1]))
        self._hold((self.start or ends[0], self.end or ends[1]) == ends)
        self.start, self.end = ends
        return self.w.value(self._outer(data)), self._rank(data)

    def _offset(self, name: str) -> _Offset:
        maker = self._made(name)
        while maker.op_type in _RESHAPES:
            maker = self._made(maker.input[0])
        vector = self._outer(maker.input[0])
        shift, *last = (self._shift(read) for read in maker.input[1:3])
        whole = maker.op_type == "Gather" or (maker.op_type == "Slice" and last == [shift + 1])
        self._hold(whole and shift >= 0 and self._rank(vector) == 1)
        return _Offset(vector, shift)

    def _shift(self, name: str) -> int:
        """How far a number is above that of the run."""
        found = self._values.of(name)
        if found is None or found.base or found.step != 1:
            raise OtherLoopError
        return found.offset

    def _outer(self, name: str) -> str:
        """A value from outside of the Loop."""
        values = self._values
        inside = (
            name in values.makers or name in values.initial or name in (values.iteration, values.condition)
        )
        self._hold(not inside)
        return name

    def _rank(self, name: str) -> int:
        type_ = self._loop.type_of(name)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            raise OtherLoopError
        return len(type_.tensor_type.shape.dim)


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
    except (OtherLoopError, ValueError):  # a ValueError where there are fewer operands than that
        return None
    type_ = node.type_of(node.output(0))
    joined = node is not loop  # of rows that keep a dimension for their bag
    if type_ is None or not type_.tensor_type.elem_type or reader.keepdims != joined:
        return None
    return _written(reader, rows, rank, count, type_.tensor_type.elem_type)


def _collected(node: NodeView, loop: NodeView, values: LoopValues) -> tuple[str, str]:
    """The row of a run, and the number of runs, of a Loop that collects the rows."""
    if len(loop.inputs) > 2 or len(loop.outputs) != 1 or not every_run(values) or loop.opset < 13:
        raise OtherLoopError
    return values.body.output[1].name, loop.input(0)


def _joined(node: NodeView, loop: NodeView, values: LoopValues) -> tuple[str, str]:
    """The same of a Loop that inserts rows, of one bag each, into a sequence."""
    count = read_condition(values, loop.constant(0)).first  # false first in the last run
    at = loop.outputs.index(node.input(0))
    state, row = values.makers[values.body.output[at + 1].name].input
    empty = loop.producer_of(values.initial[state]) if state in values.initial else None
    if not isinstance(count, Count) or (count.minus, count.offset, count.step) != ("", -1, 1):
        raise OtherLoopError
    start, first = loop.constant(1), loop.producer(1)
    starts = start.all() if start is not None else first is not None and _has_runs(loop, first, count.plus)
    if loop.input(0) or not starts or empty is None or empty.op_type != "SequenceEmpty" or loop.opset < 13:
        raise OtherLoopError
    if node.attributes.get("axis") != 0 or node.attributes.get("new_axis", 0) or values.keeps(state):
        raise OtherLoopError
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
