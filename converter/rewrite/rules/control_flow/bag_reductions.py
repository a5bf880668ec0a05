"""Rewrites a Loop that reduces slices of rows between offsets, as PyTorch's exporters write EmbeddingBag.

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
    """The vector element at index run + `shift`."""

    vector: str
    shift: int

    def all(self, w: Writer, count: Value) -> Value:
        """The offsets of all runs, int64[count, 1]."""
        first = w.constant([self.shift])
        found = w.Slice(w.value(self.vector), first, w.Add(count, first), w.constant([0]))
        return w.Unsqueeze(w.Cast(found, to=onnx.TensorProto.INT64), axes=[1])


class _BagReader(BodyReader):
    """Reads the body backwards from the row of a run, through If branches.

    w:        writes the rows of all bags, of which a run has a slice.
    count:    the number of runs.
    elem:     element type of the rows.
    guarded:  whether an empty bag has zeros.
    counted:  a tensor with as many rows as the divisor of the last bag's mean counts; "": it ends as others do.
    last_end: where the last bag ends; "": the same.
    places:   the value of the body that lists the rows of a bag without the padding; "" if there is no padding.
    kept:     which of all rows are no padding, bool[rows]; None if there is no padding.
    """

    def __init__(self, w: Writer, loop: NodeView, values: LoopValues, count: str | int) -> None:
        super().__init__(values)
        self.w = w
        self._loop = loop
        self._count = count
        self.start: _Offset | None = None
        self.end: _Offset | None = None
        self.kind, self.elem = "", 0
        self.keepdims = self.guarded = False
        self.counted = self.last_end = self.places = ""
        self.kept: Value | None = None
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
        """The maker of the row of a non-empty bag, behind the If that gives zeros for an empty one."""
        graphs = {a.name: a.g for a in node.attribute}
        empty, (first, second) = graphs["then_branch"], self._made(node.input[0], "Equal").input
        name = empty.output[0].name
        zeros = [onnx.numpy_helper.to_array(t) for t in empty.initializer if t.name == name]
        zeros += [
            onnx.numpy_helper.to_array(a.t) for one in empty.node for a in one.attribute if name in one.output
        ]
        self._hold(len(zeros) == 1 and not zeros[0].any())
        size = self._made(first)
        if size.op_type == "Size":
            self._hold(not any(self._numbers(second)))
            self._read_places(size.input[0])
        else:
            self.start, self.end = self._offset(first), self._offset(second)
        return self._entered(graphs["else_branch"])

    def _read_places(self, name: str) -> None:
        """Reads an inner Loop over one bag that collects the positions of rows other than padding."""
        w, loop = self.w, self._made(name, "Loop")
        trips, test, nothing, first = loop.input
        start, end = self._made(test, "Less").input
        self._hold(loop.output[0] == name and not trips and first == start and not self._numbers(nothing))
        self.places, self.start, self.end = name, self._offset(start), self._offset(end)
        (body,) = (a.g for a in loop.attribute)
        _, _, so_far, place = (value.name for value in body.input)
        chosen = self._entered(body, 1)
        more, _, after = (value.name for value in body.output)
        self._hold(list(self._made(more, "Less").input) == [after, end] and self._is_next(after, place))
        longer, same = self._branches(chosen)
        self._hold((longer.op_type, same.op_type, list(same.input)) == ("Concat", "Identity", [so_far]))
        self._hold(longer.input[0] == so_far and len(longer.input) == 2)
        self._hold(self._made(longer.input[1], "Reshape", "Unsqueeze").input[0] == place)
        wrapped, padding = self._made(self._made(chosen.input[0], "Not").input[0], "Equal").input
        above, index = self._branches(self._made(wrapped, "If"))
        below, zero = self._made(self._made(wrapped).input[0], "Less").input
        self._hold((above.op_type, index.op_type, list(index.input)) == ("Add", "Identity", [below]))
        self._hold(above.input[0] == below and not any(self._numbers(zero)))
        indices, at = self._made(below, "Gather").input
        self._hold(at == place)
        number = w.Cast(w.value(self._outer(indices)), to="int64")
        number = w.Where(w.Less(number, 0), w.Add(number, self._numbers(above.input[1])), number)
        self.kept = w.Not(w.Equal(number, self._numbers(padding)))

    def _is_next(self, name: str, place: str) -> bool:
        maker = self._made(name, "Add")
        return maker.input[0] == place and self._numbers(maker.input[1]) == [1]

    def _branches(self, node: onnx.NodeProto) -> tuple[onnx.NodeProto, onnx.NodeProto]:
        """The makers of an If's output in the then branch and in the else branch."""
        graphs = {a.name: a.g for a in self._of_kind(node, "If").attribute}
        return self._entered(graphs["then_branch"]), self._entered(graphs["else_branch"])

    def _mean(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The ReduceMean of a bag. The last bag may instead divide its sum by the count of indices after its start."""
        last, mean = self._of_last_run(node)
        self._hold(mean.op_type == "ReduceMean")
        quotient, plain = self._branches(last)
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
        """The makers of an If's output for the last run and for the other runs."""
        made = self._branches(node)
        run, last = self._made(node.input[0], "Equal").input
        found = self._values.of(last)
        base, first = (self._count, 0) if isinstance(self._count, str) else ("", self._count)
        ends = found is not None and (found.base, found.step, found.offset) == (base, 0, first - 1)
        self._hold(ends and self._shift(run) == 0)
        return made

    def _entered(self, graph: onnx.GraphProto, output: int = 0) -> onnx.NodeProto:
        """Adds the nodes of an inner graph to those that are read. Returns the maker of its output."""
        makers = {name: node for node in graph.node for name in node.output}
        self._hold(self._values.makers.keys().isdisjoint(makers))
        self._values.makers.update(makers)
        return self._made(graph.output[output].name)

    def _whole(self, name: str) -> tuple[Value, int]:
        """The rows of all runs, for a value that holds the rows of one run; and their rank."""
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
            if maker.input[1] == self.places:
                data, rank = self._rows(maker.input[0])
                return w.Slice(data, [0], w.Shape(self.kept), [0]), rank
            index, rank = self._whole(maker.input[1])
            table, more = self._rows(maker.input[0])
            return w.Gather(table, index, axis=0), more + rank - 1
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
        return self._rows(data)

    def _rows(self, name: str) -> tuple[Value, int]:
        """A tensor from outside of the Loop, and its rank. Notes its element type, which is that of the result."""
        self.elem = self._type(name).elem_type
        return self.w.value(self._outer(name)), self._rank(name)

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
        """The constant difference between a number and the run's index."""
        found = self._values.of(name)
        if found is None or found.base or found.step != 1:
            raise OtherLoopError
        return found.offset

    def _outer(self, name: str) -> str:
        """Checks that a value comes from outside of the Loop."""
        values = self._values
        inside = (
            name in values.makers or name in values.initial or name in (values.iteration, values.condition)
        )
        self._hold(not inside)
        return name

    def _rank(self, name: str) -> int:
        return len(self._type(name).shape.dim)

    def _type(self, name: str) -> onnx.TypeProto.Tensor:
        type_ = self._loop.type_of(name)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            raise OtherLoopError
        return type_.tensor_type


@node_rule("bag-reductions", "ConcatFromSequence", "Loop")
def bag_reductions_rule(node: NodeView) -> Replacement | None:
    """Rewrites Loops that reduce rows between offsets (EmbeddingBag) as one reduction of all rows."""
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
    joined = node is not loop  # of rows that keep a dimension for their bag
    return _written(reader, rows, rank, count) if reader.keepdims == joined else None


def _collected(node: NodeView, loop: NodeView, values: LoopValues) -> tuple[str, str | int]:
    """The row of a run and the number of runs, for a Loop with the rows as its scan output."""
    if len(loop.inputs) > 2 or len(loop.outputs) != 1 or not every_run(values) or loop.opset < 13:
        raise OtherLoopError
    return values.body.output[1].name, loop.input(0)


def _joined(node: NodeView, loop: NodeView, values: LoopValues) -> tuple[str, str | int]:
    """The row of a run and the number of runs, for a Loop that inserts the row of each bag into a sequence."""
    condition = read_condition(values, loop.constant(0))
    runs = condition.first  # of the last run, which is the first that makes it false
    at = loop.outputs.index(node.input(0))
    state, row = values.makers[values.body.output[at + 1].name].input
    empty = loop.producer_of(values.initial[state]) if state in values.initial else None
    if not condition.exact or not (
        isinstance(runs, int)
        or (isinstance(runs, Count) and (runs.minus, runs.offset, runs.step) == ("", -1, 1))
    ):
        raise OtherLoopError
    count = runs + 1 if isinstance(runs, int) else runs.plus
    start, first = loop.constant(1), loop.producer(1)
    starts = start.all() if start is not None else first is not None and _has_runs(loop, first, count)
    if loop.input(0) or not starts or empty is None or empty.op_type != "SequenceEmpty" or loop.opset < 13:
        raise OtherLoopError
    if node.attributes.get("axis") != 0 or node.attributes.get("new_axis", 0) or values.keeps(state):
        raise OtherLoopError
    return row, count


def _has_runs(loop: NodeView, condition: onnx.NodeProto, count: str | int) -> bool:
    """Whether the condition is "0 < number of runs"."""
    zero = loop.constant_of(condition.input[0]) if condition.op_type == "Less" else None
    return zero is not None and not zero.any() and condition.input[1] == count


def _written(reader: _BagReader, rows: Value, rank: int, count: str | int) -> Replacement:
    w = reader.w
    assert reader.start is not None and reader.end is not None
    bags = (
        w.constant([count])
        if isinstance(count, int)
        else w.Reshape(w.Cast(w.value(count), to="int64"), shape=[1])
    )
    start, end = reader.start.all(w, bags), reader.end.all(w, bags)
    is_last = w.Equal(w.Unsqueeze(w.arange(bags), axes=[1]), w.Sub(bags, [1]))
    until = w.Where(is_last, w.value(reader.last_end), end) if reader.last_end else end
    place = w.Unsqueeze(w.arange(w.size(rows, 0)), axes=[0])
    inside = w.And(w.Not(w.Less(place, start)), w.Less(place, until))
    size = w.Sub(end, start)
    if reader.counted:
        size = w.Where(is_last, w.Sub(w.size(w.value(reader.counted), 0), start), size)
    if reader.kept is not None:
        inside = w.And(inside, w.Unsqueeze(reader.kept, axes=[0]))
        size = w.reduce("ReduceSum", w.Cast(inside, to="int64"), [1])
    neutral = w.Cast(w.constant(_NEUTRAL[reader.kind]), to=reader.elem)
    kept = w.Where(w.unsqueeze(inside, list(range(2, rank + 1))), w.Unsqueeze(rows, axes=[0]), neutral)
    kind = "ReduceSum" if reader.kind == "ReduceMean" else reader.kind
    result = w.reduce(kind, kept, [1], keepdims=False)
    more = list(range(2, rank))
    if reader.kind == "ReduceMean":
        result = w.Div(
            result, w.Cast(w.unsqueeze(w.Max(size, [1]) if reader.guarded else size, more), to=reader.elem)
        )
    elif reader.guarded:
        zero = w.Cast(w.constant(0.0), to=reader.elem)
        result = w.Where(w.unsqueeze(w.Equal(size, [0]), more), zero, result)
    return Replacement(w.finish(result), "all bags at once")
