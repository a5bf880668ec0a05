"""Stage: small constant subgraphs become constants, so that passes and guards can read what a graph computes.

Only arithmetic on shapes, axes and the like is folded: inputs and results are small, so weights are never read. What is
folded is computed by onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import TensorProto, helper, numpy_helper

from converter.errors import ConversionError
from converter.infer import value_types
from converter.modelfile.model import Model
from converter.modelfile.ort import run
from importers.registry import normalise_domain

LIMIT = 4096
"""Elements of the largest constant that is read or made."""

_NOT_FOLDED = frozenset(
    {
        "Constant",  # is one
        "QuantizeLinear",  # TensorRT reads the types of a network from these
        "DequantizeLinear",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
        "Dropout",
    }
)


def fold_constants(model: Model) -> Model:
    """The model with small constant nodes of its main graph computed, dead ones removed. Itself if there are none.

    Shape and Size of a value whose shape is fixed count as constant. A node that onnxruntime refuses keeps all as it is.
    """
    proto = model.proto
    types = value_types(proto)
    inputs = {value.name for value in proto.graph.input}
    constants = {
        t.name for t in proto.graph.initializer if t.name not in inputs and _elements(t.dims) <= LIMIT
    }
    constants |= {n.output[0] for n in proto.graph.node if n.op_type == "Constant" and _small_constant(n)}
    known: dict[str, onnx.TensorProto] = {}
    folded: list[onnx.NodeProto] = []
    for node in proto.graph.node:
        node = _typed(node, types)
        shape = _fixed_shape(node, types)
        if shape is not None:
            known[node.output[0]] = _shape_constant(node, shape)
            constants.add(node.output[0])
        elif _foldable(node, constants, types):
            folded.append(node)
            constants.update(node.output)
    if not folded and not known:
        return model
    values = dict(known)
    if folded:
        computed = _compute(model, folded, known)
        if computed is None:
            return model
        values |= computed
    return model.with_proto(_replace(proto, values))


def _typed(node: onnx.NodeProto, types: dict[str, onnx.TypeProto.Tensor]) -> onnx.NodeProto:
    """A CastLike as the Cast that it is: of its second input only the type counts, and that may be known."""
    like = node.op_type == "CastLike" and not normalise_domain(node.domain) and types.get(node.input[1])
    if not like or not like.elem_type:
        return node
    return helper.make_node("Cast", node.input[:1], node.output, node.name, to=like.elem_type)


def _foldable(node: onnx.NodeProto, constants: set[str], types: dict[str, onnx.TypeProto.Tensor]) -> bool:
    if normalise_domain(node.domain) or node.op_type in _NOT_FOLDED or not any(node.input):
        return False
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return False
    if not all(name in constants for name in node.input if name):
        return False
    return all(_small_type(types.get(name)) for name in node.output if name)


def _small_type(type_: onnx.TypeProto.Tensor | None) -> bool:
    if (
        type_ is None
        or not type_.HasField("shape")
        or not type_.elem_type
        or type_.elem_type == TensorProto.STRING
    ):
        return False
    dims = [d.dim_value if d.HasField("dim_value") else -1 for d in type_.shape.dim]
    return min(dims, default=0) >= 0 and _elements(dims) <= LIMIT


def _elements(dims: Iterable[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _small_constant(node: onnx.NodeProto) -> bool:
    return all(a.t.data_type != TensorProto.STRING and _elements(a.t.dims) <= LIMIT for a in node.attribute)


def _fixed_shape(node: onnx.NodeProto, types: dict[str, onnx.TypeProto.Tensor]) -> list[int] | None:
    """The shape that a Shape or Size node reports, where it is fixed."""
    if normalise_domain(node.domain) or node.op_type not in ("Shape", "Size") or node.input[0] not in types:
        return None
    type_ = types[node.input[0]]
    if not type_.HasField("shape") or not all(d.HasField("dim_value") for d in type_.shape.dim):
        return None
    return [d.dim_value for d in type_.shape.dim]


def _shape_constant(node: onnx.NodeProto, shape: list[int]) -> onnx.TensorProto:
    if node.op_type == "Size":
        return helper.make_tensor(node.output[0], TensorProto.INT64, [], [_elements(shape)])
    ends = {a.name: a.i for a in node.attribute}
    part = shape[ends.get("start", 0) : ends.get("end", len(shape))]
    return helper.make_tensor(node.output[0], TensorProto.INT64, [len(part)], part)


def _compute(
    model: Model, nodes: list[onnx.NodeProto], known: dict[str, onnx.TensorProto]
) -> dict[str, onnx.TensorProto] | None:
    """The outputs of the nodes; None if onnxruntime does not run them."""
    needed = {name for node in nodes for name in node.input if name}
    outputs = [name for node in nodes for name in node.output if name]
    proto = onnx.ModelProto(ir_version=model.proto.ir_version)
    proto.opset_import.extend(model.proto.opset_import)
    proto.graph.name = "constants"
    proto.graph.initializer.extend(t for t in model.proto.graph.initializer if t.name in needed)
    proto.graph.initializer.extend(t for name, t in known.items() if name in needed)
    proto.graph.node.extend(
        n for n in model.proto.graph.node if n.op_type == "Constant" and n.output[0] in needed
    )
    proto.graph.node.extend(nodes)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    try:
        arrays = run(model.with_proto(proto), {})
    except ConversionError:
        return None
    return {name: numpy_helper.from_array(array, name) for name, array in arrays.items()}


def _replace(proto: onnx.ModelProto, values: dict[str, onnx.TensorProto]) -> onnx.ModelProto:
    """The model with the values as initializers instead of the nodes that make them; unused ones are left out."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    outputs = {
        output.name for output in proto.graph.output
    }  # these keep their nodes: no engine returns a constant
    kept = [n for n in proto.graph.node if outputs.intersection(n.output) or not values.keys() & n.output]
    used = {name for node in kept for name in _names_used(node)}
    values = {name: tensor for name, tensor in values.items() if name not in outputs}
    del result.graph.node[:]
    result.graph.node.extend(kept)
    result.graph.initializer.extend(tensor for name, tensor in values.items() if name in used)
    return result


def _names_used(node: onnx.NodeProto) -> Iterable[str]:
    """Inputs of the node and of the nodes of its subgraphs, which may read outer values."""
    yield from node.input
    for attribute in node.attribute:
        for subgraph in (attribute.g, *attribute.graphs):
            yield from (output.name for output in subgraph.output)
            for inner in subgraph.node:
                yield from _names_used(inner)
