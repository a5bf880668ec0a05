"""Finds what TensorRT cannot run in the body of a Loop, so that it must be unrolled."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from trtsmith.converter.graph.infer import inferred_proto
from trtsmith.converter.graph.operator_groups import op_types
from trtsmith.converter.graph.walk import all_graphs, subgraphs
from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.freeze import CONSTANT_OPERANDS, SHAPE_OPERANDS
from trtsmith.importers.registry import normalise_domain

SEQUENCES = frozenset(
    op_types(
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
        "SplitToSequence"
    )
)


def obstacle(body: onnx.GraphProto) -> str:
    """Returns the first operator in the body that TensorRT loops do not support, in words, or "".

    Sequences; and operands that decide on shapes, or have to be constants, and change from one run to the next: asked of
    TensorRT-RTX 1.7.1, a Slice from the iteration's number on parses and does not build.
    """
    for graph in all_graphs(body):
        for node in graph.node:
            if node.op_type in SEQUENCES and not normalise_domain(node.domain):
                return f"its body holds {node.op_type}"
    return _varying(body, {value.name for value in body.input})


def loop_inputs_to_freeze(proto: onnx.ModelProto) -> frozenset[str]:
    """Finds graph inputs that must be constant because a Loop that reads them has to be unrolled."""
    inputs = {value.name for value in proto.graph.input}
    loops = (node for graph in all_graphs(proto.graph) for node in graph.node if node.op_type == "Loop")
    bodies = ((node, a.g) for node in loops for a in node.attribute if a.name == "body")
    return frozenset(
        name for node, body in bodies if obstacle(body) for name in node.input[:2] if name in inputs
    )


def _varying(graph: onnx.GraphProto, varying: set[str]) -> str:
    for node in graph.node:
        known = CONSTANT_OPERANDS.get(node.op_type, frozenset()) | SHAPE_OPERANDS.get(
            node.op_type, frozenset()
        )
        for index in sorted(known):
            if index < len(node.input) and node.input[index] in varying and not normalise_domain(node.domain):
                return f"the {node.op_type} in its body has another {node.input[index]!r} each time"
        inner = [found for part in subgraphs(node) if (found := _varying(part, varying))]
        if inner:
            return inner[0]
        reads = set(node.input) | {name for part in subgraphs(node) for name in _names_read(part)}
        if reads & varying and node.op_type not in ("Shape", "Size"):
            varying.update(node.output)
    return ""


def _names_read(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.output}
    for part in all_graphs(graph):
        for node in part.node:
            names.update(node.input)
    return names


def changing_state(node: NodeView, body: onnx.GraphProto) -> str:
    """Returns the first Loop state whose shape changes in the first run, in words, or "" if none is known to."""
    given = {
        value.name: node.type_of(name) for value, name in zip(body.input[2:], node.inputs[2:], strict=False)
    }
    types: dict[str, onnx.TypeProto | None] = {name: node.type_of(name) for name in _names_read(body)} | given
    after = _inferred(node, body, types)
    for value, result in zip(body.input[2:], body.output[1:], strict=False):
        before, now = _dims(given[value.name]), _dims(after.get(result.name))
        if before is None or now is None:
            continue
        pairs = list(zip(before, now, strict=False))
        if len(before) != len(now) or any(a != b for a, b in pairs if None not in (a, b)):
            return f"its state {value.name!r} has shape {before} before the first run and {now} after it"
    return ""


def types_in_body(node: NodeView, body: onnx.GraphProto) -> dict[str, onnx.TypeProto | None]:
    """Returns known types of the values in a Loop's body, with each state as it is before the first run."""
    given = {
        value.name: _completed(node.type_of(name), value.type)
        for value, name in zip(body.input[2:], node.inputs[2:], strict=False)
    }
    types: dict[str, onnx.TypeProto | None] = {name: node.type_of(name) for name in _names_read(body)} | given
    return types | _inferred(node, body, types)


def _completed(known: onnx.TypeProto | None, declared: onnx.TypeProto) -> onnx.TypeProto | None:
    """A type with unknown sizes filled in from the type that the body declares."""
    if known is None or not known.tensor_type.HasField("shape"):
        return declared if declared.HasField("tensor_type") else known
    made, other = known.tensor_type.shape.dim, declared.tensor_type.shape.dim
    if len(made) != len(other):
        return known
    completed = onnx.TypeProto()
    completed.CopyFrom(known)
    for dim, given in zip(completed.tensor_type.shape.dim, other, strict=True):
        if not dim.HasField("dim_value") and given.HasField("dim_value"):
            dim.dim_value = given.dim_value
    return completed


def _inferred(
    node: NodeView, body: onnx.GraphProto, types: Mapping[str, onnx.TypeProto | None]
) -> dict[str, onnx.TypeProto]:
    """Inferred types in the body during the first run."""
    graph = onnx.GraphProto(name="body")
    graph.node.extend(body.node)
    graph.initializer.extend(body.initializer)
    graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in body.output)
    made = {name for inner in body.node for name in inner.output} | {
        tensor.name for tensor in body.initializer
    }
    for value in body.input[:2]:
        graph.input.add().CopyFrom(value)
    fixed = {value.name for value in graph.input}
    states = {value.name for value in body.input}
    for name, type_ in types.items():
        if not name or type_ is None or name in made | fixed:
            continue
        value = node.constant_of(name) if name not in states and _is_short(type_) else None
        if value is not None:
            graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        else:
            graph.input.append(onnx.ValueInfoProto(name=name, type=type_))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)])
    try:
        inferred = inferred_proto(model).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, TypeError):
        return {}
    return {value.name: value.type for value in (*inferred.value_info, *inferred.output, *inferred.input)}


def _is_short(type_: onnx.TypeProto) -> bool:
    """Whether the value may be a shape, axes or bounds: at most 16 integers."""
    dims = _dims(type_)
    whole = type_.tensor_type.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    return (
        whole and dims is not None and len(dims) <= 1 and all(dim is not None and dim <= 16 for dim in dims)
    )


def _dims(type_: onnx.TypeProto | None) -> list[int | None] | None:
    if type_ is None or not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else None for d in type_.tensor_type.shape.dim]
