"""Reads integers in a Loop's body as linear functions of the run's index: counters, bounds and sums of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper

from trtsmith.converter.graph.tensor_types import Dim, dims_of
from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import types_in_body
from trtsmith.importers.registry import normalise_domain

LONGEST = 2**31 - 1
"""The longest axis that TensorRT has, and more runs than any loop makes."""

_EXACT: Mapping[int, int] = {
    TensorProto.INT8: 2**7 - 1,
    TensorProto.INT16: 2**15 - 1,
    TensorProto.INT32: LONGEST,
    TensorProto.INT64: 2**63 - 1,
    TensorProto.BFLOAT16: 2**8,
    TensorProto.FLOAT16: 2**11,
    TensorProto.FLOAT: 2**24,
    TensorProto.DOUBLE: 2**53,
}
"""By type, up to which magnitude it holds every whole number."""

_WHOLE = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)
_SAME = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten")
"""Operators that leave the number as it is, in another shape or type."""

_MOVED = frozenset(
    """Abs Add Cast Ceil Concat Constant Div Flatten Floor Gather Identity Max Min Mul Neg Reshape Shape Size Slice Squeeze
    Sub Unsqueeze Where""".split()  # noqa: SIM905
)
"""Operators with which graphs compute sizes: what these make of values that stay can be computed before the loop."""


@dataclass(frozen=True)
class RunValue:
    """The integer base + step * run + offset, for run 0, 1, ... of a loop.

    base:  a value that is the same in every run, by its name in the body; "" for none.
    exact: the magnitude up to which the types in between hold every whole number.
    """

    base: str
    step: int
    offset: int
    exact: int = 2**63 - 1

    def plus(self, other: RunValue, sign: int) -> RunValue | None:
        """Returns the sum, or the difference for sign -1; None if it is not of the form of RunValue."""
        base = self.base or other.base
        if self.base and other.base:
            if sign > 0 or self.base != other.base:
                return None
            base = ""
        elif other.base and sign < 0:
            return None
        return RunValue(
            base,
            self.step + sign * other.step,
            self.offset + sign * other.offset,
            min(self.exact, other.exact),
        )


class LoopValues:
    """The values of a Loop's body, analysed on first use."""

    def __init__(self, node: NodeView, body: onnx.GraphProto) -> None:
        self.node = node
        self.body = body
        self.makers = {name: inner for inner in body.node for name in inner.output if name}
        self.tensors = {tensor.name: tensor for tensor in body.initializer}
        inputs = [value.name for value in body.input]
        self.iteration, self.condition = inputs[0], inputs[1]
        given = node.inputs[2:]
        self.initial = dict(zip(inputs[2:], given, strict=False))
        results = [value.name for value in body.output[1:]]
        self.results = dict(zip(inputs[2:], results, strict=False))
        self._types: Mapping[str, onnx.TypeProto | None] | None = None
        self._read: dict[tuple[str, bool], RunValue | None] = {}
        self._stays: dict[str, bool] = {}

    # what is known of any value

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """Returns the shape of a value in the first run; None for an unknown rank."""
        type_ = self._type(name)
        return None if type_ is None else dims_of(type_)

    def elem_type(self, name: str) -> int:
        """Returns the onnx.TensorProto.DataType of a value; 0 if unknown."""
        type_ = self._type(name)
        return 0 if type_ is None else int(type_.tensor_type.elem_type)

    def constant(self, name: str) -> np.ndarray | None:
        """Returns a constant of the body or an enclosing graph, or a state that keeps a constant first value; else None."""
        if name in self.tensors:
            return onnx.numpy_helper.to_array(self.tensors[name])
        maker = self.makers.get(name)
        if maker is not None:
            tensors = (
                [a.t for a in maker.attribute if a.name == "value"] if maker.op_type == "Constant" else []
            )
            return onnx.numpy_helper.to_array(tensors[0]) if tensors else None
        if name in self.initial:
            return self.node.constant_of(self.initial[name]) if self.keeps(name) else None
        return None if name in (self.iteration, self.condition) else self.node.constant_of(name)

    def keeps(self, state: str) -> bool:
        """Tells whether a state has the same value in every run."""
        name = self.results[state]
        while name in self.makers and self.makers[name].op_type == "Identity":
            name = self.makers[name].input[0]
        if name == state:
            return True
        raw = self._number(name, True)
        return raw is not None and (raw.base, raw.step, raw.offset) == (state, 0, 0)

    def stays(self, name: str) -> bool:
        """Tells whether a value is loop-invariant, so that it can be computed before the loop."""
        if name in self._stays:
            return self._stays[name]
        self._stays[name] = False  # on the way
        maker = self.makers.get(name)
        if maker is not None:
            known = maker.op_type in _MOVED and not normalise_domain(maker.domain)
            found = known and not any(subgraphs(maker)) and all(map(self.stays, filter(None, maker.input)))
        elif name in self.initial:
            found = self.keeps(name)
        else:
            found = name not in (self.iteration, self.condition)
        self._stays[name] = found
        return found

    # numbers

    def of(self, name: str) -> RunValue | None:
        """Returns a value as an integer function of the run's index; None if it is not known to be one."""
        return self._number(name, False)

    def elements(self, name: str) -> list[str] | None:
        """Returns the values that a Concat joins into a vector; the value itself if it is no Concat, None for a constant."""
        if self.constant(name) is not None:
            return None
        maker = self.makers.get(name)
        if maker is None or maker.op_type != "Concat":
            return [name]
        return [part for value in maker.input for part in (self.elements(value) or [value])]

    def _counter(self, state: str) -> RunValue | None:
        raw = self._number(self.results[state], True)
        if raw is None:
            return None
        value = self.node.constant_of(self.initial[state])
        first = _whole(value)
        if raw.base == state and raw.step == 0:
            if first is not None:
                return RunValue("", raw.offset, first, raw.exact)
            return RunValue(state, raw.offset, 0, raw.exact) if value is None else None
        if not raw.base and raw.step and first == raw.offset - raw.step:  # made of the iteration's number
            return RunValue("", raw.step, first, raw.exact)
        return None

    def _number(self, name: str, apart: bool) -> RunValue | None:
        """The same as `of`. apart: treats each state as a base of its own, even a counter."""
        key = name, apart
        if key not in self._read:
            self._read[key] = None  # on the way: a graph has no cycle
            self._read[key] = self._found(name, apart)
        return self._read[key]

    def _found(self, name: str, apart: bool) -> RunValue | None:
        if name == self.iteration:
            return RunValue("", 1, 0)
        if name in self.initial:
            elem = self.elem_type(name)
            if elem not in _WHOLE:
                return None
            counter = None if apart else self._counter(name)
            own = RunValue(name, 0, 0, _EXACT[elem]) if apart else counter
            return None if own is None else replace(own, exact=min(own.exact, _EXACT[elem]))
        value = self.constant(name)
        if value is not None:
            whole = _whole(value)
            return None if whole is None else RunValue("", 0, whole)
        maker = self.makers.get(name)
        native = maker is not None and not normalise_domain(maker.domain)
        found = self._computed(maker, apart) if maker is not None and native else None
        if found is None and self.stays(name) and self.elem_type(name) in _WHOLE:
            return RunValue(name, 0, 0, _EXACT[self.elem_type(name)])
        return found

    def _computed(self, maker: onnx.NodeProto, apart: bool) -> RunValue | None:
        operands = [self._number(name, apart) for name in maker.input]
        first = operands[0] if operands else None
        if maker.op_type in ("Gather", "Slice"):
            return self._size(maker)
        if first is None:
            return None
        if maker.op_type == "Cast":
            to = next(a.i for a in maker.attribute if a.name == "to")
            return replace(first, exact=min(first.exact, _EXACT[to])) if to in _EXACT else None
        if maker.op_type in _SAME:
            return first
        second = operands[1] if len(operands) == 2 else None
        if maker.op_type in ("Add", "Sub") and second is not None:
            return first.plus(second, 1 if maker.op_type == "Add" else -1)
        if maker.op_type == "Mul" and second is not None:
            if first.step or first.base:
                first, second = second, first
            by = first.offset
            if not first.step and not first.base and not second.base:
                return RunValue("", by * second.step, by * second.offset, min(first.exact, second.exact))
        return None

    def _size(self, maker: onnx.NodeProto) -> RunValue | None:
        """The known length of an axis, read by Gather of Shape."""
        shape = self.makers.get(maker.input[0])
        if maker.op_type != "Gather" or shape is None or shape.op_type != "Shape" or shape.attribute:
            return None
        axis, dims = _whole(self.constant(maker.input[1])), self.dims(shape.input[0])
        size = None if axis is None or dims is None or not -len(dims) <= axis < len(dims) else dims[axis]
        return RunValue("", 0, size) if isinstance(size, int) else None

    def _type(self, name: str) -> onnx.TypeProto | None:
        if self._types is None:
            self._types = types_in_body(self.node, self.body)
        if name in self._types:
            return self._types[name]
        tensor = self.tensors.get(name)
        return None if tensor is None else helper.make_tensor_type_proto(tensor.data_type, tensor.dims)


def _whole(value: np.ndarray | None) -> int | None:
    """The integer value of a single-element constant, else None."""
    if value is None or value.size != 1 or value.dtype.kind not in "iuf":
        return None
    number = value.reshape(-1)[0]
    return int(number) if np.isfinite(number) and number == int(number) else None
