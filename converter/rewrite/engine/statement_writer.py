"""Writes the nodes of a replacement: one by one, or as ONNX text, in the form that the model's opset has.

A number of an operator that is known here is always written as an attribute: `Unsqueeze <axes = [1]> (x0)`,
`Reshape <shape = [0, -1]> (x0)`, `w.do("ReduceSum", "x0", axes=[1])`. What is an input of the operator in the model's opset
becomes a constant; what is an attribute there stays one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.importers.builder import moved_attributes
from trtsmith.importers.dtypes import NUMBERS, numpy_dtype
from trtsmith.importers.lowering import parse_statements

Value = str | np.ndarray
"""An operand: the name of a value, or a constant."""


def statements(node: NodeView, text: str, /, **values: Value) -> list[onnx.NodeProto]:
    """The nodes of a text that makes the node's outputs. `values` binds names: to arrays, or to values of the graph.

    Raises onnx.parser.ParseError, or LookupError for a name that nothing makes.
    """
    w = Writer(node)
    w.text(text, **{name: w.value(v) if isinstance(v, str) else v for name, v in values.items()})
    return w.nodes()


class Writer:
    """Collects the nodes that replace one node.

    Values go by names of their own here: x0, x1, ... are the node's inputs, y0, y1, ... its outputs, and a method that
    writes gives the name of its result, which `result` chooses. Every other name becomes a fresh value of the graph.
    """

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self._nodes: list[onnx.NodeProto] = []
        self._names = {"": "", **{f"x{i}": name for i, name in enumerate(node.inputs)}}
        self._results = {f"y{i}": name for i, name in enumerate(node.outputs) if name}
        self._constants: defaultdict[tuple[str, tuple[int, ...], bytes], list[tuple[np.ndarray, str]]]
        self._constants = defaultdict(list)  # by type, shape and a sample
        self._shapes: dict[str, str] = {}
        self._count = 0

    def nodes(self) -> list[onnx.NodeProto]:
        """What was written and is needed for the outputs."""
        needed = {name for name in self.node.outputs if name}
        kept = []
        for node in reversed(self._nodes):
            if needed.intersection(node.output):
                needed.update(values_read(node))
                kept.append(node)
        return kept[::-1]

    def value(self, name: str) -> str:
        """A value of the graph that is no input of the node."""
        local = self.name("given")
        self._names[local] = name
        return local

    def text(self, text: str, /, **values: Value) -> None:
        """Statements, one a line, that read what is written already and `values`."""
        bound = {name: self._operand(value, name) for name, value in values.items()}
        for parsed in _parsed(text, self.node.opset):
            node = onnx.NodeProto()
            node.CopyFrom(parsed)
            inputs = [bound.get(name, name) for name in node.input]
            moved = moved_attributes(
                node.op_type, node.domain, self.node.opset, tuple(a.name for a in node.attribute)
            )
            if moved:
                kept = [a for a in node.attribute if a.name not in moved]
                given = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name in moved}
                inputs = self._with_inputs(node.op_type, inputs, moved, given)
                del node.attribute[:]
                node.attribute.extend(kept)
            for name in node.output:
                bound.pop(name, None)
            self._add(node, inputs, list(node.output))

    def do(self, op_type: str, *inputs: Value, result: str = "", **attributes: Any) -> str:
        """One node with one result."""
        if not result or (result in self._names and result not in self._results):
            result = self.name(result or "v")
        self.many(op_type, inputs, [result], **attributes)
        return result

    def many(self, op_type: str, inputs: Sequence[Value], results: Sequence[str], **attributes: Any) -> None:
        """One node with these results, "" for those that nobody reads. `op_type` may have a domain: "domain::Name"."""
        domain, _, op_type = op_type.rpartition("::")
        names = [self._operand(value) for value in inputs]
        moved = moved_attributes(op_type, domain, self.node.opset, tuple(attributes))
        if moved:
            names = self._with_inputs(op_type, names, moved, attributes)
            attributes = {name: value for name, value in attributes.items() if name not in moved}
        self._add(helper.make_node(op_type, [], [], domain=domain, **attributes), names, results)

    def graph(self, graph: onnx.GraphProto, arguments: Sequence[str] = ()) -> list[str]:
        """The nodes of a graph that a node has, with `arguments` for its inputs; the names of its outputs."""
        renamed = {v.name: self._names[a] for v, a in zip(graph.input, arguments, strict=True)}
        made = [helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
        for inner in graph.node:
            node = onnx.NodeProto()
            node.CopyFrom(inner)
            made.append(node)
        renamed |= {name: self.node.fresh(name) for node in made for name in node.output if name}
        for node in made:
            rename_values(node, renamed, self.node.fresh)
        self._nodes += made
        return [self.value(renamed.get(value.name, value.name)) for value in graph.output]

    def const(self, value: np.ndarray, hint: str = "c") -> str:
        """A constant; equal ones are one value. Large arrays must not be changed afterwards."""
        held = self._constants[str(value.dtype), value.shape, _sample(value)]
        for other, known in held:
            if other is value or value.tobytes() == other.tobytes():
                return known
        name = self.name(hint)
        held.append((value, name))
        self._names[name] = self.node.fresh(name)
        self._nodes.append(self.node.constant_of_graph(self._names[name], value))
        return name

    def ints(self, *values: int) -> str:
        """An int64 vector."""
        return self.const(np.array(values, np.int64))

    def number(self, value: float, dtype: str) -> str:
        """A scalar of an element type, "bfloat16" too."""
        return self.const(np.array(value, numpy_dtype(dtype)))

    def cast(self, data: str, dtype: str, result: str = "") -> str:
        return self.do("Cast", data, result=result, to=NUMBERS[dtype])

    def shape(self, data: str) -> str:
        if data not in self._shapes:
            self._shapes[data] = self.do("Shape", data)
        return self._shapes[data]

    def size(self, data: str, axis: int) -> str:
        """Length of an axis as int64[1], computed by the graph."""
        return self.do("Gather", self.shape(data), self.ints(axis), axis=0)

    def scalar(self, vector: str) -> str:
        """A vector of one element as a scalar."""
        return self.reshape(vector, [])

    def arange(self, count: str) -> str:
        """0, 1, ... as int64; `count`: int64[1]."""
        return self.do("Range", np.array(0), self.scalar(count), np.array(1))

    def concat(self, parts: Sequence[str], axis: int = 0, result: str = "") -> str:
        return self.do("Concat", *parts, result=result, axis=axis)

    def reshape(self, data: str, dims: Sequence[int | str], result: str = "") -> str:
        """`dims`: numbers, and names of int64[1] for those that the graph computes. ONNX's 0 and -1 hold."""
        fixed = [dim for dim in dims if isinstance(dim, int)]
        if len(fixed) == len(dims):
            return self.do("Reshape", data, result=result, shape=fixed)
        target = self.concat([self.ints(dim) if isinstance(dim, int) else dim for dim in dims])
        return self.do("Reshape", data, target, result=result)

    def transpose(self, data: str, order: Sequence[int], result: str = "") -> str:
        return self.do("Transpose", data, result=result, perm=list(order))

    def slice_(
        self,
        data: str,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
        result: str = "",
    ) -> str:
        """ValueError: steps in an opset without them."""
        steps = steps or [1] * len(axes)
        return self.do("Slice", data, result=result, starts=starts, ends=ends, axes=axes, steps=steps)

    def split(self, data: str, sizes: Sequence[int], axis: int) -> list[str]:
        results = [self.name("part") for _ in sizes]
        self.many("Split", [data], results, axis=axis, split=list(sizes))
        return results

    def pad(self, data: str, pads: Sequence[int] | str, value: float = 0.0, dtype: str = "") -> str:
        """Constant padding, begins then ends; a name for pads that the graph computes. `dtype` of data, for a value.

        ValueError: computed pads in an opset that has them as an attribute.
        """
        if isinstance(pads, str) and self.node.opset < 11:
            raise ValueError(f"computed pads in opset {self.node.opset}")
        if not isinstance(pads, str) and not any(pads):
            return data
        if self.node.opset < 11:
            return self.do("Pad", data, pads=list(pads), value=float(value))
        filled = [self.number(value, dtype)] if value else []
        return self.do("Pad", data, pads if isinstance(pads, str) else self.ints(*pads), *filled)

    def clip(self, data: str, low: float | None, high: float | None, dtype: str, result: str = "") -> str:
        """Clip to bounds that are numbers."""
        if self.node.opset < 11:
            given = {"min": low, "max": high}
            bounds = {name: float(value) for name, value in given.items() if value is not None}
            return self.do("Clip", data, result=result, **bounds)
        names = ["" if value is None else self.number(value, dtype) for value in (low, high)]
        return self.do("Clip", data, *names, result=result)

    def round_(self, data: str, result: str = "") -> str:
        """float32 to the nearest integer, ties to even. Round itself came with opset 11; exact before it, too."""
        if self.node.opset >= 11:
            return self.do("Round", data, result=result)
        half, two = self.number(0.5, "float32"), self.number(2, "float32")
        floor = self.do("Floor", data)
        above = self.do("Sub", data, floor)
        up, down = self.do("Greater", above, half), self.do("Less", above, half)
        even = self.do("Mul", self.do("Floor", self.do("Mul", floor, half)), two)
        odd = self.do("Greater", self.do("Sub", floor, even), half)
        more = self.do("Or", up, self.do("And", self.do("Not", down), odd))
        return self.do("Add", floor, self.cast(more, "float32"), result=result)

    def reduce(
        self, op_type: str, data: str, axes: Sequence[int] | None, keepdims: bool = True, result: str = ""
    ) -> str:
        """ReduceSum, ReduceMax, ... over `axes`; over all of them for None. ValueError for none of them."""
        if axes is not None and not axes:
            raise ValueError("no axes: write Identity")
        over = {} if axes is None else {"axes": list(axes)}
        return self.do(op_type, data, result=result, keepdims=int(keepdims), **over)

    def squeeze(self, data: str, axes: Sequence[int], result: str = "") -> str:
        return self._axes_changed("Squeeze", data, axes, result)

    def unsqueeze(self, data: str, axes: Sequence[int], result: str = "") -> str:
        return self._axes_changed("Unsqueeze", data, axes, result)

    def _axes_changed(self, op_type: str, data: str, axes: Sequence[int], result: str) -> str:
        if not axes:
            return self.do("Identity", data, result=result)
        return self.do(op_type, data, result=result, axes=list(axes))

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def _operand(self, value: Value, hint: str = "c") -> str:
        return value if isinstance(value, str) else self.const(np.asarray(value), hint)

    def _with_inputs(
        self, op_type: str, inputs: list[str], moved: Mapping[str, int], attributes: Mapping[str, Any]
    ) -> list[str]:
        """The inputs and, in their places, constants for the attributes that are inputs here."""
        for name, place in moved.items():
            if place < 0:
                if name != "steps" or any(step != 1 for step in attributes[name]):
                    raise ValueError(f"{name} {attributes[name]} of {op_type} in opset {self.node.opset}")
                continue
            value = attributes[name]
            if isinstance(value, onnx.TensorProto):
                array = onnx.numpy_helper.to_array(value)
            else:
                array = np.asarray(value)
                array = array.astype(np.float32 if array.size and array.dtype.kind == "f" else np.int64)
            inputs = [*inputs, *[""] * (place + 1 - len(inputs))]
            inputs[place] = self.const(array, name)
        return inputs

    def _add(self, node: onnx.NodeProto, inputs: Sequence[str], results: Sequence[str]) -> None:
        lost = next((name for name in inputs if name not in self._names), None)
        if lost is not None:
            raise LookupError(f"{lost!r} is read by {node.op_type} and neither defined nor bound")
        del node.input[:], node.output[:]
        node.input.extend(self._names[name] for name in inputs)
        for name in results:
            if name:
                self._names[name] = self._results.get(name) or self.node.fresh(name)
            node.output.append(self._names[name])
        self._nodes.append(node)


_SAMPLED = 64
"""Elements by which arrays are told apart before all of them are compared."""


def _sample(value: np.ndarray) -> bytes:
    """All elements of a small array, and some of a large one."""
    flat = value.reshape(-1)
    return flat[:: max(flat.size // _SAMPLED, 1)].tobytes()


@lru_cache(maxsize=1024)
def _parsed(text: str, opset: int) -> tuple[onnx.NodeProto, ...]:
    return tuple(parse_statements(text, opset))
