"""Infers shapes and types through custom nodes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import chain

import onnx
from onnx import inliner

from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.graph import onnx_inference
from trtsmith.converter.graph.inference_cost import MOST_ELEMENTS, MOST_IN_SHAPES, inference_cost
from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.dtypes import dtype_name

_FAILURES = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    RuntimeError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
)


def infer_shapes(model: Model) -> Model:
    """Returns the model with value_info for every value whose type can be inferred, also of plugin nodes.

    Inference failures inside onnx (a wrong model, an operator it does not know) leave values unknown: what is wrong
    with a node is for `plan` to say, with the node's name. So does a model whose shapes have too many dimensions.
    """
    try:
        return model.with_proto(inferred_proto(model.proto))
    except _FAILURES:
        return model


def infers_with_types(model: Model) -> Model | None:
    """Does the same; None if onnx finds inputs whose types, shapes or number do not fit their operators."""
    try:
        return model.with_proto(inferred_proto(model.proto, check_type=True, strict_mode=True))
    except _FAILURES:
        return None


def inferred_proto(proto: onnx.ModelProto, **checks: bool) -> onnx.ModelProto:
    """Runs onnx's inference and raises its errors. checks: keyword arguments of infer_shapes that turn its checks on.

    Values of shapes are followed through arithmetic where that is known to end in little memory.

    Of most models that is known once they are inferred without.
    """
    flat = _unfolded(proto)
    cost = inference_cost(flat, inferred=False)
    if cost.dimensions > MOST_IN_SHAPES:
        return proto
    if cost.elements > MOST_ELEMENTS:
        without = _infer(flat, **(checks if flat is proto else {}))
        bounded = inference_cost(without, inferred=True).elements <= MOST_ELEMENTS
        if flat is not proto:
            return _infer(proto, data_prop=bounded, **checks)
        if not bounded:
            return without
    return _infer(proto, data_prop=True, **checks)


def _infer(proto: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
    with foreign_code():
        return onnx_inference.infer_shapes(proto, **options)


def _unfolded(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the nodes of functions in the place of their calls, as far as onnx puts them there."""
    try:
        with foreign_code():
            return inliner.inline_local_functions(proto) if proto.functions else proto
    except RuntimeError:  # several versions of ONNX's operators that nobody converts
        return proto


def value_types(
    proto: onnx.ModelProto, wanted: Container[str] | None = None
) -> dict[str, onnx.TypeProto.Tensor]:
    """Returns tensor types by value name: inputs, outputs, initializers and inferred values of the graph and its subgraphs.

    wanted: the names, where not all are.
    """
    types: dict[str, onnx.TypeProto.Tensor] = {}
    _collect(proto.graph, types, wanted)
    return types


def _collect(
    graph: onnx.GraphProto, types: dict[str, onnx.TypeProto.Tensor], wanted: Container[str] | None
) -> None:
    for tensor in graph.initializer:
        if wanted is not None and tensor.name not in wanted:
            continue
        entry = onnx.TypeProto.Tensor(elem_type=tensor.data_type)
        entry.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=size) for size in tensor.dims)
        types[tensor.name] = entry
    for value in chain(graph.input, graph.value_info, graph.output):
        if wanted is not None and value.name not in wanted:
            continue
        type_ = value.type
        if type_.HasField("tensor_type"):
            types[value.name] = type_.tensor_type
    for node in graph.node:
        for subgraph in subgraphs(node):
            _collect(subgraph, types, wanted)


def value_dtypes(proto: onnx.ModelProto) -> dict[str, str]:
    """Returns element types by value name, as "float32", "bfloat16", "int64"."""
    return dtypes_of(value_types(proto))


def dtypes_of(types: Mapping[str, onnx.TypeProto.Tensor]) -> dict[str, str]:
    """Returns element types by value name, where known."""
    return {name: dtype_name(type_.elem_type) for name, type_ in types.items() if type_.elem_type}


def value_shapes(proto: onnx.ModelProto) -> dict[str, tuple[int | None, ...]]:
    """Returns shapes by value name, None for each dimension that is not a number; values of unknown rank are left out."""
    return shapes_of(value_types(proto))


def shapes_of(types: Mapping[str, onnx.TypeProto.Tensor]) -> dict[str, tuple[int | None, ...]]:
    """Returns shapes by value name, where the rank is known."""
    return {
        name: tuple(d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim)
        for name, type_ in types.items()
        if type_.HasField("shape")
    }
