"""Builds the nodes that take the place of one node: `w.finish(w.Mul(w.x[0], w.Sigmoid(w.x[0])))`.

Numbers of operators are written as attributes, `w.Unsqueeze(x, axes=[1])`, and get the form that they have in the model's
opset; methods in lower case write what takes another operator in some opsets, or sizes that the graph computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import all_graphs, subgraphs, values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.importers.builder import Builder, Operand, Value, as_array
from trtsmith.importers.dtypes import numpy_dtype

__all__ = ["MOST_BYTES", "MOST_WRITTEN", "Operand", "Value", "Writer"]

MOST_WRITTEN = 20_000
"""Nodes that rules may unroll in a graph. `check` took 0.3 ms for each, TensorRT's parser and builder take one."""

MOST_BYTES = 1 << 28
"""Of the constants that rules may compute for a graph from attributes and sizes."""

_FEW = 100
"""Nodes of a replacement that is not unrolled."""


class Writer(Builder):
    """Writes nodes. x: the node's inputs, without a name where one is left out. Names of readable values are operands, too.

    Constants go to the graph of the node, those that bodies read among them; weights to a file of it.

    What a rule may write is bounded, over all nodes of the graph: a file of a few bytes asks for a window of any size.
    A rule that loops over an attribute or a size, or makes a constant as large as one says, asks by `expect` before it
    does. The node beyond MOST_WRITTEN is refused in any case.
    """

    def __init__(self, node: NodeView) -> None:
        super().__init__(node.opset, node.fresh)
        self.node = node
        self.x = self.inputs(*node.inputs)
        self._outermost = self.nodes
        self._held: defaultdict[tuple[str, tuple[int, ...], bytes], list[tuple[np.ndarray, Value]]]
        self._held = defaultdict(list)  # by type, shape and a sample
        self._shapes: dict[str, Value] = {}
        self._inlined = set[str]()  # names of nodes
        self._count = self._bytes = 0

    def expect(self, what: str, *, nodes: int = 0, nbytes: int = 0, fix: str = "") -> None:
        """Checks the limits on new nodes and constant bytes. Raises RefusedError beyond them.

        what: the cause, with its value: "a window of 70,000".
        """
        fix = fix or "export the model with smaller attributes and sizes"
        written = self.node.written
        if nodes > _FEW and nodes + written["nodes"] > MOST_WRITTEN:
            raise RefusedError(
                f"{what} would make {nodes:,} nodes{_beside(written['nodes'])}",
                f"at most {MOST_WRITTEN:,} nodes",
                fix,
            )
        self._bytes += nbytes
        if self._bytes + written["bytes"] > MOST_BYTES:
            raise RefusedError(
                f"{what} would make constants of {self._bytes:,} bytes{_beside(written['bytes'])}",
                f"at most {MOST_BYTES:,} bytes",
                fix,
            )

    def numbers(self, count: int) -> np.ndarray:
        """Counts 0, 1, ... as int64, up to an attribute's or a size's value. Raises RefusedError if there are too many.

        Such a vector is in the graph itself, and not in a file: copies of the graph count, too.
        """
        self.expect(f"a length of {count:,}", nbytes=64 * count)
        return np.arange(count)

    def fresh(self, hint: str) -> Value:
        self._count += 1
        if self._count + self.node.written["nodes"] > MOST_WRITTEN and self._count > _FEW:
            self.expect("its attributes and sizes", nodes=max(self._count, MOST_WRITTEN + 1))
        return super().fresh(hint)

    def finish(self, *results: Operand) -> list[onnx.NodeProto]:
        """Returns the nodes that compute the results, which become the node's outputs in order; unread outputs are left out.

        A result that a node has made gets the output's name, unless other nodes read it, too: TensorRT-RTX may leave such
        outputs of an engine unwritten (separate_outputs.py), so that it gets an Identity, as inputs and constants do.
        """
        wanted = [self._name(result) for result in results]
        self.node.written.update(nodes=self._count if self._count > _FEW else 0, bytes=self._bytes)
        needed = {name for index, name in enumerate(wanted) if self.node.used(index)}
        read, kept = set[str](), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                reads = set(values_read(node))
                read |= reads
                needed |= reads
                kept.append(node)
        kept.reverse()
        made = {name for node in kept if node.op_type != "Constant" for name in node.output if name} - read
        names: dict[str, str] = {}
        for index, (output, name) in enumerate(zip(self.node.outputs, wanted, strict=False)):
            if output and name in made and name not in names:
                names[name] = output
            elif name and self.node.used(index):
                kept.append(onnx.helper.make_node("Identity", [name], [output]))
        for node in kept:
            _rename(node, names)
        return kept

    def value(self, name: str) -> Value:
        """Makes an operand of a value in scope."""
        return Value(self, name)

    def number(self, value: float, dtype: str) -> Value:
        """Makes a scalar of an element type, "bfloat16" too."""
        return self.constant(np.array(value, numpy_dtype(dtype)))

    def constant(self, value: Operand) -> Value:
        """Makes a constant. Large arrays must not be changed afterwards."""
        array = as_array(value)
        held = self._held[str(array.dtype), array.shape, _sample(array)]
        for other, known in held:
            if other is array or array.tobytes() == other.tobytes():
                return known
        made = self.fresh("Constant")
        held.append((array, made))
        self._outermost.append(self.node.constant_of_graph(made.name, array))
        return made

    def graph(self, signature: str, body: Callable[..., Sequence[Value]]) -> onnx.GraphProto:
        outer, self._shapes = self._shapes, dict(self._shapes)
        graph = super().graph(signature, body)
        self._shapes = outer
        return graph

    def inline(self, graph: onnx.GraphProto, arguments: Sequence[Value] = ()) -> list[Value]:
        """Inlines a subgraph with `arguments` for its inputs. Returns its outputs.

        Of nodes in graphs inside, the first copy keeps the name: onnxruntime refuses two of one name.
        """
        renamed = {value.name: given.name for value, given in zip(graph.input, arguments, strict=True)}
        made = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
        for inner in graph.node:
            node = onnx.NodeProto()
            node.CopyFrom(inner)
            made.append(node)
        renamed |= {name: self.fresh(name).name for node in made for name in node.output if name}
        for node in made:
            rename_values(node, renamed, self.node.fresh)
            for inner in (
                inner for part in subgraphs(node) for held in all_graphs(part) for inner in held.node
            ):
                inner.name = "" if inner.name in self._inlined else inner.name
                self._inlined.add(inner.name)
        self.nodes += made
        return self.inputs(*(renamed.get(value.name, value.name) for value in graph.output))

    def shape(self, data: Value) -> Value:
        """Writes the Shape of a value; one node per value."""
        if data.name not in self._shapes:
            self._shapes[data.name] = self.write("Shape", data)
        return self._shapes[data.name]

    def size(self, data: Value, axis: int) -> Value:
        """Writes the length of an axis as int64[1], computed by the graph."""
        return self.write("Gather", self.shape(data), [axis], axis=0)

    def arange(self, count: Operand) -> Value:
        return self.write("Range", 0, self.write("Reshape", count, shape=[]), 1)

    def slice(
        self,
        data: Operand,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] = (),
    ) -> Value:
        """Writes a Slice. Raises ValueError for steps in an opset without them."""
        more = {"steps": steps or [1] * len(axes)} if self.opset >= 10 or steps else {}
        return self.write("Slice", data, starts=starts, ends=ends, axes=axes, **more)

    def split(self, data: Operand, sizes: Sequence[int], axis: int) -> list[Value]:
        return list(self.write("Split", data, outputs=len(sizes), axis=axis, split=list(sizes)))

    def pad(self, data: Value, pads: Sequence[int] | Value, value: float = 0.0, dtype: str = "") -> Value:
        """Pads with a constant, begins then ends. `dtype` of data, for a value that is not 0.

        ValueError: computed pads in an opset that has them as an attribute.
        """
        if not isinstance(pads, Value) and not any(pads):
            return data
        if self.opset < 11:
            if isinstance(pads, Value):
                raise ValueError(f"computed pads in opset {self.opset}")
            return self.write("Pad", data, pads=list(pads), value=float(value))
        return self.write("Pad", data, pads, *([self.number(value, dtype)] if value else []))

    def clip(self, data: Operand, low: float | None, high: float | None, dtype: str) -> Value:
        """Clips to bounds that are numbers."""
        if self.opset < 11:
            given = {"min": low, "max": high}
            bounds = {name: float(value) for name, value in given.items() if value is not None}
            return self.write("Clip", data, **bounds)
        ends = (None if value is None else self.number(value, dtype) for value in (low, high))
        return self.write("Clip", data, *ends)

    def round(self, data: Operand) -> Value:
        """Rounds float32 to the nearest integer, ties to even; exact even before opset 11, which introduced Round."""
        if self.opset >= 11:
            return self.write("Round", data)
        floor = self.Floor(data)
        above = self.Sub(data, floor)
        even = self.Floor(floor * 0.5) * 2.0
        odd = self.Greater(floor - even, 0.5)
        more = self.Or(self.Greater(above, 0.5), self.And(self.Not(self.Less(above, 0.5)), odd))
        return floor + self.Cast(more, to="float32")

    def reduce(self, op_type: str, data: Operand, axes: Sequence[int] | None, keepdims: bool = True) -> Value:
        """Writes ReduceSum, ReduceMax, ... over `axes`; None: all axes. Raises ValueError for an empty list."""
        if axes is not None and not axes:
            raise ValueError("no axes: there is nothing to reduce")
        over = {} if axes is None else {"axes": list(axes)}
        return self.write(op_type, data, keepdims=int(keepdims), **over)

    def real_copy(self, data: Value) -> Value:
        """Writes a copy that TensorRT does not take for its input: the maximum along a new axis of one element."""
        return self.reduce("ReduceMax", self.unsqueeze(data, [0]), [0], keepdims=False)

    def squeeze(self, data: Value, axes: Sequence[int]) -> Value:
        """Writes a Squeeze; returns data itself for an empty list, which ONNX takes for all axes of size 1."""
        return self.write("Squeeze", data, axes=list(axes)) if axes else data

    def unsqueeze(self, data: Value, axes: Sequence[int]) -> Value:
        return self.write("Unsqueeze", data, axes=list(axes)) if axes else data


def _beside(others: int) -> str:
    return f", beside {others:,} for other nodes" if others else ""


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Gives values their final names; no graph inside makes one of them."""
    for values in (node.input, node.output):
        for index, name in enumerate(values):
            if name in names:
                values[index] = names[name]
    for graph in subgraphs(node):
        for value in graph.output:
            value.name = names.get(value.name, value.name)
        for inner in graph.node:
            _rename(inner, names)


_SAMPLED = 64
"""Elements by which arrays are told apart before all of them are compared."""


def _sample(value: np.ndarray) -> bytes:
    """All elements of a small array, and some of a large one."""
    flat = value.reshape(-1)
    return flat[:: max(flat.size // _SAMPLED, 1)].tobytes()
