"""Shape and type inference that goes through custom nodes."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import chain

import onnx

from trtsmith.converter.graph import onnx_inference
from trtsmith.converter.graph.walk import all_graphs, subgraphs
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

_LONGEST = 1 << 20
_FOLLOWED = frozenset({"Add", "Sub", "Mul", "Cast"})


def infer_shapes(model: Model) -> Model:
    """The model with value_info for every value whose type can be known; our plugin nodes included.

    Inference failures inside onnx (a wrong model, an operator it does not know) leave values unknown: what is wrong
    with a node is for `plan` to say, with the node's name.
    """
    try:
        values = follows_values(model.proto)
        return model.with_proto(onnx_inference.infer_shapes(model.proto, data_prop=values))
    except _FAILURES:
        return model


def infers_with_types(model: Model) -> Model | None:
    """The same; None if onnx finds that inputs of nodes are not of the types, shapes or number that the operators take."""
    try:
        values = follows_values(model.proto)
        return model.with_proto(
            onnx_inference.infer_shapes(model.proto, check_type=True, strict_mode=True, data_prop=values)
        )
    except _FAILURES:
        return None


def follows_values(proto: onnx.ModelProto) -> bool:
    """Whether inference may follow the values of shapes through arithmetic.

    onnx takes every vector for a shape, floats too, and makes a message of 140 bytes of each element that these operators
    read: a vector of 2^31 elements took all memory.
    """
    long = {name for graph in all_graphs(proto.graph) for name in _long_vectors(graph)}
    return not long or not any(
        node.op_type in _FOLLOWED and not long.isdisjoint(node.input)
        for graph in all_graphs(proto.graph)
        for node in graph.node
    )


def _long_vectors(graph: onnx.GraphProto) -> Iterator[str]:
    for tensor in graph.initializer:
        if len(tensor.dims) == 1 and tensor.dims[0] > _LONGEST:
            yield tensor.name
    for value in chain(graph.input, graph.value_info, graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 1 and dims[0].dim_value > _LONGEST:
            yield value.name


def value_types(
    proto: onnx.ModelProto, wanted: Container[str] | None = None
) -> dict[str, onnx.TypeProto.Tensor]:
    """Tensor type by value name: inputs, outputs, initializers and inferred values of the graph and its subgraphs.

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
    """Element type by value name, as "float32", "bfloat16", "int64"."""
    return dtypes_of(value_types(proto))


def dtypes_of(types: Mapping[str, onnx.TypeProto.Tensor]) -> dict[str, str]:
    """Element types of those that are known."""
    return {name: dtype_name(type_.elem_type) for name, type_ in types.items() if type_.elem_type}


def value_shapes(proto: onnx.ModelProto) -> dict[str, tuple[int | None, ...]]:
    """Shape by value name, None for each dimension that is not a number; values of unknown rank are left out."""
    return shapes_of(value_types(proto))


def shapes_of(types: Mapping[str, onnx.TypeProto.Tensor]) -> dict[str, tuple[int | None, ...]]:
    """Shapes of those whose rank is known."""
    return {
        name: tuple(d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim)
        for name, type_ in types.items()
        if type_.HasField("shape")
    }
