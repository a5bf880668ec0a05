"""Writes a graph in which onnxruntime's CPU emulates reduced precision, for the verdict only.

onnxruntime has few kernels for float16 on a CPU and hardly any for bfloat16; where it has none it computes in float32 and
may leave out the rounding between two nodes. Here every value of those types is a float32 value that was rounded to the
type: each node computes in float32, as TensorRT's kernels sum (but those of TensorRT-RTX in float16: see sums.py), and its
results are rounded once. onnxruntime must not optimise such a graph: it fuses over the Casts that round, and then lacks the
fused kernel in bfloat16.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import refill, subgraphs, values_read
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort_kernels import holds_bfloat16
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.importers.registry import normalise_domain

REDUCED = frozenset({T.FLOAT16, T.BFLOAT16})

TYPE_ATTRIBUTES = frozenset({"dtype", "output_dtype", "softmax_precision", "stash_type"})
"""Attributes that hold an element type, but for Cast's own."""


def emulated(model: Model, unrounded: Collection[str] = (), kinds: Collection[int] = REDUCED) -> Model:
    """Holds the model's float16 and bfloat16 values (of `kinds`) in float32, rounded. Returns it unchanged if it has none.

    Inputs and outputs of those types are float32 too: the caller rounds the inputs, and the results are rounded.
    unrounded: values that only look like float16: sums whose error is still to be added (sum_noise.py).
    """
    model = infer_shapes(model)
    proto = model.copied()
    names = FreshNames.of(proto)
    work = _Emulator(model, names, unrounded, kinds)
    work.graph(proto.graph, {})
    return infer_shapes(model.with_proto(proto)) if work.changed else model


def without_bfloat16(model: Model) -> Model:
    """Holds bfloat16 values, except inputs and outputs, in float32, rounded. Returns the model unchanged if it has none."""
    if not holds_bfloat16(model.proto):
        return model
    wide = emulated(inlined(model), kinds={T.BFLOAT16})
    proto = wide.copied()
    graph, names = proto.graph, FreshNames.of(proto)
    before, after = (
        {v.name: v for v in values if v.type.tensor_type.elem_type == T.BFLOAT16}
        for values in (model.proto.graph.input, model.proto.graph.output)
    )
    ends = {name: names.value(f"{name}/wide") for name in (*before, *after)}
    for node in graph.node:
        rename_values(node, ends, names.value)
    for value in (*graph.input, *graph.output):
        if value.name in ends:
            value.type.tensor_type.elem_type = T.BFLOAT16
    nodes = [helper.make_node("Cast", [name], [ends[name]], to=T.FLOAT) for name in before]
    nodes += [*graph.node, *(helper.make_node("Cast", [ends[n]], [n], to=T.BFLOAT16) for n in after)]
    refill(graph.node, nodes)
    return infer_shapes(wide.with_proto(proto))


class _Emulator:
    def __init__(
        self, model: Model, names: FreshNames, unrounded: Collection[str], kinds: Collection[int]
    ) -> None:
        self.changed = False
        self._kinds = kinds
        self._model, self._names, self._unrounded = model, names, unrounded

    def graph(self, graph: onnx.GraphProto, outer: Mapping[str, int]) -> None:
        """Edits the graph. outer: element types of values of enclosing graphs."""
        types = {**outer, **_types(graph)}
        made: list[onnx.NodeProto] = []
        waiting = self._initializers(graph)
        for node in graph.node:  # a weight is widened where it is first read, so that few are held at a time
            made.extend(waiting.pop(name) for name in values_read(node) if name in waiting)
            made.extend(self._node(node, types))
        made.extend(waiting.values())
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type in self._kinds:
                value.type.tensor_type.elem_type = T.FLOAT
                self.changed = True
        refill(graph.node, made)

    def _initializers(self, graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
        """Weights stay in their types; by name, the Casts that widen them."""
        widening = {}
        for tensor in graph.initializer:
            if tensor.data_type in self._kinds:
                wide, self.changed = tensor.name, True
                tensor.name = self._names.value(f"{wide}/narrow")
                widening[wide] = helper.make_node("Cast", [tensor.name], [wide], to=T.FLOAT)
        return widening

    def _node(self, node: onnx.NodeProto, types: Mapping[str, int]) -> Iterable[onnx.NodeProto]:
        for inner in subgraphs(node):
            self.graph(inner, types)
        self._attributes(node)
        if node.op_type == "Cast" and not normalise_domain(node.domain):
            to = next((a for a in node.attribute if a.name == "to"), None)
            if to is not None and to.i in self._kinds:
                to.i, self.changed = T.FLOAT, True
        results = [(i, n) for i, n in enumerate(node.output) if n not in self._unrounded]
        rounded = [(i, n, types[n]) for i, n in results if types.get(n) in self._kinds]
        yield node
        if node.op_type == "Constant" or not rounded:
            return
        self.changed = True
        for index, name, elem in rounded:
            exact, narrow = self._names.value(f"{name}/exact"), self._names.value(f"{name}/narrow")
            node.output[index] = exact
            yield helper.make_node("Cast", [exact], [narrow], to=elem)
            yield helper.make_node("Cast", [narrow], [name], to=T.FLOAT)

    def _attributes(self, node: onnx.NodeProto) -> None:
        """Constants and types that attributes hold."""
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type in self._kinds:
                values = self._model.array(attribute.t).astype("float32")
                attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
                self.changed = True
            elif attribute.name in TYPE_ATTRIBUTES and attribute.i in self._kinds:
                attribute.i, self.changed = T.FLOAT, True


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    types = {tensor.name: int(tensor.data_type) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        types[value.name] = int(value.type.tensor_type.elem_type)
    return types
