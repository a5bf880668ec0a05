"""Finds a Loop's trip count by comparing its counters with loop-invariant values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx

from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LONGEST, LoopValues, RunValue

NEVER = LONGEST + 1
"""As the run in which a condition is false first: none."""

_MOST_RUNS = 2**23
"""More runs than any engine is waited for. Until then float32 holds a counter exactly, and compares as whole numbers do."""

_SIGNS = {"Less": (1, 0), "LessOrEqual": (1, 1), "Greater": (-1, 0), "GreaterOrEqual": (-1, 1)}
"""By comparison of a with b: the sign s and the whole number k with which it says s * (a - b) < k."""

_NEGATED = {
    "Less": "GreaterOrEqual",
    "LessOrEqual": "Greater",
    "Greater": "LessOrEqual",
    "GreaterOrEqual": "Less",
}
_PASSED = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")


@dataclass(frozen=True)
class Count:
    """max(0, ceil((plus - minus + offset) / step)) runs. plus, minus: loop-invariant values of the body, or ""."""

    plus: str
    minus: str
    offset: int
    step: int


@dataclass(frozen=True)
class Joined:
    """The minimum, or the maximum, of several counts."""

    least: bool
    parts: tuple[int | Count | Joined, ...]


First = int | Count | Joined
"""The first run in which a condition is false."""


@dataclass(frozen=True)
class LoopCondition:
    """When the body's condition ends the loop. first: the run after which it ends at the latest; exact: whether it ends
    exactly then.
    """

    first: First
    exact: bool

    @property
    def true(self) -> bool:
        """Whether the condition never ends the loop."""
        return self.exact and self.first == NEVER

    def bounds(self) -> tuple[int | Count, ...]:
        """Returns upper bounds of a run's index."""
        return tuple(_least_parts(self.first))


def read_condition(values: LoopValues, trips: np.ndarray | None) -> LoopCondition:
    """Reads the condition that the body computes. trips: the Loop's own trip count, if it is constant.

    Numbers that pass through a type that does not hold every whole number (float32 above 2^24) are read where they cannot
    get so large: a counter that starts at a known number is taken to make _MOST_RUNS at most, as one of int32 is taken not
    to overflow.
    """
    most = NEVER if trips is None or trips.size != 1 else min(int(trips.reshape(-1)[0]), NEVER)
    return _ConditionReader(values, most).read(values.body.output[0].name, True)


class _ConditionReader:
    def __init__(self, values: LoopValues, most: int) -> None:
        self._values = values
        self._most = most

    def read(self, name: str, wanted: bool) -> LoopCondition:
        """The first run in which the value `name` is not `wanted`."""
        values = self._values
        if name == values.condition:
            return LoopCondition(NEVER if wanted else 0, True)
        constant = values.constant(name)
        if constant is not None and constant.size == 1:
            return LoopCondition(NEVER if bool(constant.reshape(-1)[0]) is wanted else 0, True)
        maker = values.makers.get(name)
        if maker is None or maker.domain not in ("", "ai.onnx"):
            return _UNKNOWN
        kind = maker.op_type
        if kind in _PASSED or (kind in ("Add", "Sub") and self._adds_nothing(maker)):
            return self.read(maker.input[0], wanted)
        if kind == "Not":
            return self.read(maker.input[0], not wanted)
        if kind in ("And", "Or"):
            parts = [self.read(operand, wanted) for operand in maker.input]
            return _joined(parts, least=(kind == "And") is wanted)
        if kind in _SIGNS:
            left, right = (values.of(operand) for operand in maker.input)
            if left is not None and right is not None:
                return self._compared(kind if wanted else _NEGATED[kind], left, right)
        return _UNKNOWN

    def _adds_nothing(self, maker: onnx.NodeProto) -> bool:
        """Whether the node adds 0, as one exporter does to booleans that it writes as numbers."""
        value = self._values.constant(maker.input[1])
        return value is not None and not np.any(value)

    def _compared(self, kind: str, left: RunValue, right: RunValue) -> LoopCondition:
        sign, more = _SIGNS[kind]
        step = sign * (left.step - right.step)
        offset = sign * (right.offset - left.offset) + more
        plus, minus = (right.base, left.base) if sign > 0 else (left.base, right.base)
        if plus == minus:
            plus = minus = ""
        constant = not plus and not minus
        if step <= 0:  # true in the first run, true in all
            return (
                LoopCondition(NEVER if offset > 0 else 0, True)
                if constant and self._fits(left, right, self._most)
                else _UNKNOWN
            )
        runs = max(0, -(-offset // step))
        most = min(self._most, runs if constant else NEVER, NEVER if minus else _MOST_RUNS)
        if not self._fits(left, right, most):
            return _UNKNOWN
        return LoopCondition(min(runs, NEVER) if constant else Count(plus, minus, offset, step), True)

    def _fits(self, left: RunValue, right: RunValue, runs: int) -> bool:
        """Whether both sides stay exact in their types for this many runs; sizes always do."""
        return all(
            one.exact >= LONGEST or abs(one.offset) + abs(one.step) * (runs + 1) < one.exact
            for one in (left, right)
        )


_UNKNOWN = LoopCondition(NEVER, False)


def _joined(parts: Iterable[LoopCondition], *, least: bool) -> LoopCondition:
    parts = list(parts)
    exact = all(part.exact for part in parts)
    if least:
        kept = [part.first for part in parts if part.first != NEVER]
    else:
        kept = [] if any(part.first == NEVER for part in parts) else [part.first for part in parts]
    numbers = [first for first in kept if isinstance(first, int)]
    chosen: list[First] = [first for first in kept if not isinstance(first, int)]
    if numbers:
        chosen.append((min if least else max)(numbers))
    if not chosen:
        return LoopCondition(NEVER, exact or (not least and any(p.true for p in parts)))
    return LoopCondition(chosen[0] if len(chosen) == 1 else Joined(least, tuple(chosen)), exact)


def _least_parts(first: First) -> Iterable[int | Count]:
    if isinstance(first, Joined):
        if first.least:
            for part in first.parts:
                yield from _least_parts(part)
    elif first != NEVER:
        yield first


class TripCount:
    """Upper bound of a Loop's iterations, from its trip count and conditions."""

    def __init__(self, node: NodeView, values: LoopValues, condition: LoopCondition) -> None:
        self._node = node
        self._values = values
        self._first = condition.first
        self._starts = node.constant(1) if node.input(1) else np.array(True)

    @property
    def limited(self) -> bool:
        """Whether anything bounds the loop besides a data-dependent condition."""
        trips = self._node.constant(0)
        given = bool(self._node.input(0)) and (trips is None or int(trips.reshape(-1)[0]) <= LONGEST)
        return given or self._first != NEVER

    @property
    def some(self) -> bool:
        """Whether the loop runs at least once for any inputs."""
        trips = self._node.constant(0)
        starts = self._starts is not None and bool(self._starts.reshape(-1)[0])
        return starts and (not self._node.input(0) or (trips is not None and int(trips.reshape(-1)[0]) > 0))

    def constant(self) -> int | None:
        """Returns the number of runs if it is constant, else None."""
        if self._starts is not None and not bool(self._starts.reshape(-1)[0]):
            return 0
        trips = self._node.constant(0)
        most = NEVER if trips is None else max(0, int(trips.reshape(-1)[0]))
        if most == 0:
            return 0
        if (
            self._starts is None
            or not isinstance(self._first, int)
            or (self._node.input(0) and trips is None)
        ):
            return None
        found = min(most, self._first + 1)
        return found if found <= LONGEST else None

    def write(self, w: Writer) -> Value:
        """Returns the number of runs as a scalar int64, computed in the enclosing graph."""
        known = self.constant()
        if known is not None:
            return w.constant(known)
        parts = []
        trips = self._node.constant(0)
        if self._node.input(0) and (trips is None or int(trips.reshape(-1)[0]) <= LONGEST):
            parts.append(w.Reshape(w.x[0], shape=[]))
        if self._first != NEVER:
            parts.append(w.Add(self._written(w, self._first), 1))
        count = parts[0] if len(parts) == 1 else self._chosen(w, True, *parts)
        if self._starts is None:
            # TensorRT refuses a trip count that is computed from a Cast of the condition
            count = w.Where(w.Reshape(w.x[1], shape=[]), count, 0)
        return count

    def _written(self, w: Writer, first: First) -> Value:
        if isinstance(first, int):
            return w.constant(first)
        if isinstance(first, Joined):
            written = [self._written(w, part) for part in first.parts]
            found = written[0]
            for other in written[1:]:
                found = self._chosen(w, first.least, found, other)
            return found
        count = w.constant(first.offset)
        if first.plus:
            count = w.Add(self._counted(w, first.plus), count)
        if first.minus:
            count = w.Sub(count, self._counted(w, first.minus))
        count = self._chosen(w, False, count, w.constant(0))
        if first.step > 1:
            count = w.Div(w.Add(count, first.step - 1), first.step)
        return count

    def _chosen(self, w: Writer, least: bool, one: Value, other: Value) -> Value:
        """The smaller or the larger of two counts. Min and Max take integers only from opset 12 on."""
        if self._node.opset >= 12:
            return w.write("Min" if least else "Max", one, other)
        return w.Where(w.Less(one, other), *((one, other) if least else (other, one)))

    def _counted(self, w: Writer, name: str) -> Value:
        return w.Cast(w.Reshape(before_loop(w, self._values, name), shape=[]), to="int64")


def before_loop(w: Writer, values: LoopValues, name: str) -> Value:
    """Computes a loop-invariant value of the body before the loop."""
    if name in values.initial:
        return w.value(values.initial[name])
    if name in values.makers or name in values.tensors:
        return w.inline(*_computed_before(w, values, name))[0]
    return w.value(name)


def _computed_before(w: Writer, values: LoopValues, name: str) -> tuple[onnx.GraphProto, list[Value]]:
    """The subgraph that computes a loop-invariant value, and its arguments for the states."""
    graph, needed = onnx.GraphProto(), {name}
    nodes = []
    for inner in reversed(values.body.node):
        if needed.intersection(inner.output):
            nodes.append(inner)
            needed.update(values_read(inner))
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(tensor for key, tensor in values.tensors.items() if key in needed)
    states = [state for state in values.initial if state in needed]
    graph.input.extend(onnx.ValueInfoProto(name=state) for state in states)
    graph.output.append(onnx.ValueInfoProto(name=name))
    return graph, [w.value(values.initial[state]) for state in states]
