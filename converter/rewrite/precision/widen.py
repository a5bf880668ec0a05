"""A network of float16 or bfloat16 in float32: every value, weight and attribute of those types is widened."""

from __future__ import annotations

import onnx
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.scopes import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.emulate import REDUCED, TYPE_ATTRIBUTES
from trtsmith.converter.rewrite.precision.reduce import Reduced
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.types import IoType
from trtsmith.converter.rewrite.types.names import Names
from trtsmith.importers.dtypes import dtype_name

_FLOATS = {**{elem: dtype_name(elem) for elem in REDUCED}, T.FLOAT: "float32"}


def widen_precision(model: Model, *, wide_io: bool = False) -> Reduced:
    """The model with every float16 and bfloat16 value in float32. Itself, with an empty report, if it has none.

    wide_io: whether inputs and outputs of the model get float32 too; they keep their types otherwise, with Casts.
    """
    whole = inline(model, frozenset(all_functions(model)))
    whole = infer_shapes(whole) if whole is not model else model
    proto = onnx.ModelProto()
    proto.CopyFrom(whole.proto)
    weights = Converted(whole, T.FLOAT)
    work = _Widener(whole, proto, weights)
    try:
        for graph in all_graphs(proto.graph):
            work.inside(graph)
        io_types = work.interface(proto.graph, wide_io)
        changed = bool(work.nodes or weights.count or io_types)
        result = infer_shapes(weights.files().with_proto(proto)) if changed else model
    finally:
        weights.close()
    report = PrecisionReport("float32", work.nodes, (), 0, work.casts, weights.count)
    return Reduced(result, report, io_types)


class _Widener:
    """Changes the proto in place. `nodes`: how many made values of a reduced type. `casts`: inserted at the edges."""

    def __init__(self, model: Model, proto: onnx.ModelProto, weights: Converted) -> None:
        self.nodes = self.casts = 0
        self._model, self._weights = model, weights
        self._names = Names(proto)
        self._types = {
            value.name: value.type.tensor_type.elem_type
            for value in (*proto.graph.input, *proto.graph.output)
            if value.type.tensor_type.elem_type in REDUCED
        }

    def inside(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.data_type in REDUCED:
                tensor.CopyFrom(self._weights.tensor(self._model.array(tensor), tensor.name))
        reduced = {
            v.name for v in (*graph.value_info, *graph.output) if v.type.tensor_type.elem_type in REDUCED
        }
        for node in graph.node:
            self.nodes += any(name in reduced for name in node.output)
            self._attributes(node)
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.tensor_type.elem_type in REDUCED:
                value.type.tensor_type.elem_type = T.FLOAT

    def _attributes(self, node: onnx.NodeProto) -> None:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type in REDUCED:
                attribute.t.CopyFrom(self._weights.tensor(self._model.array(attribute.t), attribute.t.name))
            elif (node.op_type == "Cast" and attribute.name == "to") or attribute.name in TYPE_ATTRIBUTES:
                attribute.i = T.FLOAT if attribute.i in REDUCED else attribute.i

    def interface(self, graph: onnx.GraphProto, wide: bool) -> tuple[IoType, ...]:
        """Inputs and outputs in their old types, with Casts, or in float32."""
        if wide:
            return tuple(IoType(name, _FLOATS[elem], "float32") for name, elem in self._types.items())
        fed = {value.name for value in graph.input}
        renamed = {name: self._names.value(f"{name}/float32") for name in self._types}
        before = [self._cast(name, renamed[name], T.FLOAT) for name in self._types if name in fed]
        after = [
            self._cast(renamed[name], name, self._types[name]) for name in self._types if name not in fed
        ]
        for part in all_graphs(graph):
            for node in part.node:
                for names in (node.input, node.output):
                    for index, name in enumerate(names):
                        names[index] = renamed.get(name, name)
        for value in (*graph.input, *graph.output):
            value.type.tensor_type.elem_type = self._types.get(value.name, value.type.tensor_type.elem_type)
        nodes = [*before, *graph.node, *after]
        del graph.node[:]
        graph.node.extend(nodes)
        return ()

    def _cast(self, source: str, target: str, elem: int) -> onnx.NodeProto:
        self.casts += 1
        return helper.make_node("Cast", [source], [target], self._names.node(f"{target}/Cast"), to=elem)
