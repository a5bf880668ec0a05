"""Casts node inputs to one floating-point type, or to int64 indices, where ONNX wants that and exporters mixed types.

NVIDIA ModelOpt's exports in float16 have such nodes: layers become float16, while a constant or a residual stays float32.
TensorRT refuses them or computes in one of the types, onnxruntime refuses them. Constants take the type of the values, as
numbers do in PyTorch, if they are in its range; else all are of the widest type, as PyTorch promotes them. What the model
states of a value, and the node that makes the value contradicts, is dropped: ModelOpt states uint8 of float8, and shapes
from before it transposed a weight. PyTorch's exporter passes the int32 indices of index_put on to ScatterND, which ONNX
lets read int64 only.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest

import onnx
from onnx import TensorProto, helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes, value_types
from trtsmith.converter.graph.type_check import operator_schema
from trtsmith.converter.graph.walk import all_graphs, elem_types, refill, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.new_weights import NewWeights
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.precision.constants import unfit
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.importers.contrib_types import TENSORRT_DOMAIN
from trtsmith.importers.dtypes import BITS, FLOATS, NUMBERS, dtype_name, numpy_dtype, type_string
from trtsmith.importers.registry import normalise_domain

NAME = "one-float-type"
_FLOATS = frozenset(NUMBERS[name] for name in FLOATS)
_SAID = (
    "it reads several floating-point types, where ONNX has one: constants are cast to that of the values, and values to "
    "the widest"
)
_OF_INT64 = frozenset({"ScatterND", "GatherND"})
"""Operators whose indices are int64 alone; others take int32 as well."""
_INDICES = type_string(TensorProto.INT64)

_ONLY = {type_string(elem): elem for elem in _FLOATS}
"""The type of a port that takes one alone, as the scales of Resize are float32 whatever the values are."""
_FORMATS = {fmt.elem: fmt for fmt in FORMATS.values()}


def with_one_float_type(model: Model) -> tuple[Model, tuple[Rewrite, ...]]:
    """Returns the model with mixed floating-point inputs of nodes cast to one type, and a record for each Cast."""
    if not _may_mix(model.proto):
        return model, ()
    proto = model.copied()
    for graph in all_graphs(proto.graph):
        del graph.value_info[:]
    bare = value_types(infer_shapes(model.with_proto(proto)).proto)
    types = {name: type_.elem_type for name, type_ in bare.items() if type_.elem_type}
    casts = _Casts(model, proto, types)
    casts.walk(proto.graph)
    dropped = False
    for before, graph in zip(all_graphs(model.proto.graph), all_graphs(proto.graph), strict=True):
        kept = [
            value
            for value in before.value_info
            if _agrees(value.type.tensor_type, types.get(value.name, 0), bare.get(value.name))
        ]
        dropped |= len(kept) < len(before.value_info)
        graph.value_info.extend(kept)
    if casts.records or dropped:
        model = replace(model, proto=proto, files={**model.files, **casts.weights.files})
    return model, tuple(casts.records)


def _agrees(stated: onnx.TypeProto.Tensor, elem: int, made: onnx.TypeProto.Tensor | None) -> bool:
    """Whether the stated type and shape of a value are compatible with those that its node gives it."""
    if elem and stated.elem_type != elem:
        return False
    if made is None or not made.HasField("shape") or not stated.HasField("shape"):
        return True
    pairs = zip_longest(stated.shape.dim, made.shape.dim)
    return all(
        a is not None and b is not None and (a.dim_value or b.dim_value) == (b.dim_value or a.dim_value)
        for a, b in pairs
    )


def _may_mix(proto: onnx.ModelProto) -> bool:
    """Quick test for several floating-point types, int32 indices (_OF_INT64), or nodes in TensorRT's domain."""
    found = elem_types(proto.graph)
    indexed = False
    for graph in all_graphs(proto.graph):
        for node in graph.node:
            if node.domain == TENSORRT_DOMAIN:
                return True
            indexed |= node.op_type in _OF_INT64
            if node.op_type in ("Cast", "Constant"):
                found.update(
                    a.t.data_type if a.name == "value" else a.i
                    for a in node.attribute
                    if a.name in ("to", "value")
                )
    return len(found & _FLOATS) > 1 or (indexed and TensorProto.INT32 in found)


class _Casts:
    """Inserts Casts into a proto, node by node. types: element types of all values, corrected along the way."""

    def __init__(self, model: Model, proto: onnx.ModelProto, types: dict[str, int]) -> None:
        self.records: list[Rewrite] = []
        self.weights = NewWeights()
        self._model, self._types = model, types
        self._names = FreshNames.of(proto)
        self._opset = next((o.version for o in proto.opset_import if not normalise_domain(o.domain)), 1)
        self._constants: dict[str, onnx.TensorProto] = {}

    def walk(self, graph: onnx.GraphProto) -> None:
        self._constants |= {tensor.name: tensor for tensor in graph.initializer}
        stated = {value.name: value.type.tensor_type.elem_type for value in graph.output}
        made: list[onnx.NodeProto] = []
        known: dict[tuple[str, int], str] = {}  # casts of this graph
        for node in graph.node:
            for inner in subgraphs(node):
                self.walk(inner)
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._constants[node.output[0]] = node.attribute[0].t
            self._unite(node, made, known)
            made.append(node)
            for index, name in enumerate(node.output):
                wanted, own = stated.get(name, 0), self._types.get(name, 0)
                if wanted != own and {wanted, own} <= _FLOATS:
                    node.output[index] = self._names.value(f"{name}/{dtype_name(own)}")
                    made.append(helper.make_node("Cast", [node.output[index]], [name], to=wanted))
                    self._types |= {node.output[index]: own, name: wanted}
        if len(made) > len(graph.node):
            held = onnx.GraphProto(node=made)
            refill(graph.node, held.node)

    def _unite(
        self, node: onnx.NodeProto, made: list[onnx.NodeProto], known: dict[tuple[str, int], str]
    ) -> None:
        """Inserts Casts before a node, and notes the types of its outputs."""
        schema = operator_schema(node.op_type, normalise_domain(node.domain), self._opset)
        if schema is None or node.domain:
            return
        wanted: dict[int, int] = {}  # by input that is of another type
        alike: defaultdict[str, list[int]] = defaultdict(list)  # by type variable, the inputs of it
        for index, name in enumerate(node.input):
            port = schema.inputs[min(index, len(schema.inputs) - 1)]
            if self._types.get(name) in _FLOATS and port.is_homogeneous:
                alike[port.type_str].append(index)
            elif (
                node.op_type in _OF_INT64
                and port.type_str == _INDICES
                and self._types.get(name) == TensorProto.INT32
            ):
                wanted[index] = TensorProto.INT64
        united: dict[str, int] = {}
        for variable, indices in alike.items():
            found = {self._types[node.input[i]] for i in indices}
            united[variable] = elem = found.pop() if len(found) == 1 else self._common(node, indices)
            if variable in _ONLY:
                elem = _ONLY[variable]
            wanted |= {index: elem for index in indices if self._types[node.input[index]] != elem}
        for index, elem in wanted.items():
            name = node.input[index]
            if (name, elem) not in known:
                known[name, elem] = cast = self._names.value(f"{name}/{dtype_name(elem)}")
                made.append(self._cast(name, cast, elem))
                self._types[cast] = elem
            node.input[index] = known[name, elem]
            self._tell(node, elem)
        for index, name in enumerate(node.output):
            port = schema.outputs[min(index, len(schema.outputs) - 1)]
            if name and port.type_str in united:
                self._types[name] = united[port.type_str]

    def _cast(self, name: str, cast: str, elem: int) -> onnx.NodeProto:
        """A node that gives the value in another type. Constants stay constants, as TensorRT wants constant scales."""
        if name not in self._constants:
            return helper.make_node("Cast", [name], [cast], to=elem)
        values = self._model.array(self._constants[name]).astype(numpy_dtype(elem))
        self._constants[cast] = tensor = self.weights.tensor(values, cast)
        return helper.make_node("Constant", [], [cast], value=tensor)

    def _common(self, node: onnx.NodeProto, indices: list[int]) -> int:
        """The type of the computed inputs if the constants fit it, else the widest. Scales are never rounded."""
        names = [node.input[i] for i in indices]
        computed = {self._types[name] for name in names if name not in self._constants}
        if len(computed) == 1 and node.op_type != "QuantizeLinear":
            elem = next(iter(computed))
            others = (self._constants[name] for name in names if self._types[name] != elem)
            if elem not in _FORMATS or not any(
                unfit(self._model.array(one), _FORMATS[elem]) for one in others
            ):
                return elem
        widest = {self._types[name] for name in names}
        return TensorProto.FLOAT if widest <= _FORMATS.keys() else max(widest, key=BITS.__getitem__)

    def _tell(self, node: onnx.NodeProto, elem: int) -> None:
        label = node.name or node.output[0]
        if not self.records or self.records[-1].node != label:
            what = f"its inputs cast to {dtype_name(elem)}"
            said = (_SAID,) if elem in _FLOATS else ()
            self.records.append(Rewrite(label, node.op_type, NAME, what, numerics=said, made=(label,)))
