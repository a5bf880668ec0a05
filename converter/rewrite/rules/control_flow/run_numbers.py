"""Computes numbers of a Loop's body for all its runs at once, before the loop."""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import before_loop
from trtsmith.importers.dtypes import dtype_name

_SAME = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_POINTWISE = ("Add", "Div", "Max", "Min", "Mul", "Sub")


class RunNumbers:
    """Elements of body values as vectors, with one number per run or a single one if it never changes.

    runs: how often the loop runs, int64[1].
    """

    def __init__(self, w: Writer, values: LoopValues, runs: Value) -> None:
        self._w = w
        self._values = values
        self.runs = runs
        self._found: dict[tuple[str, int], Value | None] = {}

    def of(self, name: str, index: int = 0) -> Value | None:
        """Returns the element of a value at a flat index, in all runs; None if it cannot be computed before the loop."""
        if (name, index) not in self._found:
            self._found[name, index] = self._made(name, index)
        return self._found[name, index]

    def _made(self, name: str, index: int) -> Value | None:
        w, values = self._w, self._values
        constant = values.constant(name)
        if constant is not None:
            return w.constant(constant.reshape(-1)[index : index + 1])
        if name == values.iteration:
            return w.arange(self.runs)
        if values.stays(name):
            whole = w.Reshape(before_loop(w, values, name), shape=[-1])
            return whole if self._length(name) == 1 else w.Gather(whole, [index], axis=0)
        maker = values.makers.get(name)
        if maker is None or maker.domain not in ("", "ai.onnx"):
            return None
        kind = maker.op_type
        if kind in _SAME:
            return self.of(maker.input[0], index)
        if kind == "Cast":
            found = self.of(maker.input[0], index)
            to = next(a.i for a in maker.attribute if a.name == "to")
            return None if found is None else w.Cast(found, to=dtype_name(to))
        if kind == "Gather":
            return self._gathered(maker, index)
        if kind == "Concat":
            return self._part(maker, index)
        if kind in _POINTWISE:
            parts = [self.of(part, 0 if self._length(part) == 1 else index) for part in maker.input]
            return self._folded(kind, parts)
        if kind in ("ReduceMax", "ReduceMin") and self._length(name) == 1:
            count = self._length(maker.input[0])
            return self._folded(kind[6:], [self.of(maker.input[0], i) for i in range(count or 0)])
        return None

    def rows(self, name: str) -> Value | None:
        """Returns a value in all runs, stacked, if it is the row at the run's index of a loop-invariant tensor; else
        None.
        """
        maker = self._values.makers.get(name)
        if maker is None or maker.op_type != "Gather" or maker.input[1] != self._values.iteration:
            return None
        axis = next((a.i for a in maker.attribute if a.name == "axis"), 0)
        if axis or not self._values.stays(maker.input[0]):
            return None
        key = maker.input[0], -1
        if key not in self._found:
            self._found[key] = self._w.Slice(before_loop(self._w, self._values, key[0]), [0], self.runs, [0])
        return self._found[key]

    def _gathered(self, maker: onnx.NodeProto, index: int) -> Value | None:
        w = self._w
        rows = self.rows(maker.output[0])
        if rows is not None:
            rank = len(self._values.dims(maker.output[0]) or ())
            return rows if rank == 0 else w.Gather(rows, index, axis=1) if rank == 1 else None
        dims, picked = self._values.dims(maker.input[0]), self._values.constant(maker.input[1])
        if dims is None or len(dims) != 1 or not isinstance(dims[0], int) or picked is None:
            return None
        return self.of(maker.input[0], int(picked.reshape(-1)[index]) % dims[0])

    def _part(self, maker: onnx.NodeProto, index: int) -> Value | None:
        for part in maker.input:
            dims = self._values.dims(part)
            if dims is None or len(dims) != 1 or not isinstance(dims[0], int):
                return None
            if index < dims[0]:
                return self.of(part, index)
            index -= dims[0]
        return None

    def _folded(self, kind: str, parts: list[Value | None]) -> Value | None:
        """Combines all parts with the operator. Min and Max take integers only from opset 12 on."""
        w, found = self._w, parts[0] if parts else None
        for part in parts[1:]:
            if found is None or part is None:
                return None
            found = (
                chosen(w, found, part, least=kind == "Min")
                if kind in ("Max", "Min")
                else w.write(kind, found, part)
            )
        return found

    def _length(self, name: str) -> int | None:
        """The number of a value's elements."""
        dims = self._values.dims(name)
        if dims is None or not all(isinstance(dim, int) for dim in dims):
            return None
        return int(np.prod([int(dim or 0) for dim in dims], dtype=np.int64))


def made_by(w: Writer, name: str) -> onnx.NodeProto | None:
    """Returns the node that makes a value, among new nodes or those of the enclosing graph."""
    written = next((node for node in reversed(w.nodes) if name in node.output), None)
    return written if written is not None else w.node.producer_of(name)


def constant_of(w: Writer, name: str) -> np.ndarray | None:
    """Returns the value of a constant, among new nodes too."""
    maker = made_by(w, name)
    if maker is None or maker.op_type != "Constant":
        return w.node.constant_of(name)
    return next((onnx.numpy_helper.to_array(a.t) for a in maker.attribute if a.name == "value"), None)


def chosen(w: Writer, one: Value, other: Value, *, least: bool) -> Value:
    """Returns the smaller of two integers, or the larger."""
    return w.Where(w.Less(one, other), *((one, other) if least else (other, one)))
