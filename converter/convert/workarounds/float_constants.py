"""Stores 8-bit constants that are only moved and then dequantized or cast as float32, which is exact."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.convert.workarounds.refusals import RefusedGraph
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes, value_shapes
from trtsmith.converter.graph.operator_groups import MOVING
from trtsmith.converter.graph.outer_values import read_by
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

_NARROW = frozenset({onnx.TensorProto.INT8, onnx.TensorProto.UINT8})

_MOVES = MOVING - {"Split"} | {"GatherElements", "GatherND"}
"""Operators that give elements of their first input, whatever its type."""


def with_float_constants(graph: RefusedGraph) -> Model | None:
    """Returns the graph with such constants in float32; None if some reader cannot take them exactly."""
    proto = graph.model.copied()
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in proto.graph.node:
        for name in read_by(node):
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in proto.graph.output}
    shapes = value_shapes(infer_shapes(graph.model).proto)
    fresh = FreshNames.of(proto)
    done = False
    for tensor in list(proto.graph.initializer):
        users = readers.get(tensor.name, [])
        if tensor.data_type not in _NARROW or not any(map(graph.concerns, users)):
            continue
        ends = _ends(tensor.name, readers, outputs)
        if ends is None or not all(_can_end(node, proto, shapes) for node in ends):
            continue
        wide = np.asarray(graph.model.array(tensor)).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
        for node in ends:
            _end(node, proto, fresh, graph.model)
        done = True
    if not done:
        return None
    del proto.graph.value_info[:]
    return infer_shapes(graph.model.with_proto(proto))


def _ends(
    name: str, readers: dict[str, list[onnx.NodeProto]], outputs: set[str]
) -> list[onnx.NodeProto] | None:
    """The nodes behind moves of the value; None if it becomes an output or reaches another kind of node."""
    found: list[onnx.NodeProto] = []
    waiting = [name]
    while waiting:
        value = waiting.pop()
        if value in outputs:
            return None
        for node in readers.get(value, ()):
            if normalise_domain(node.domain) or value not in node.input or value in list(node.input)[1:]:
                return None
            if node.op_type in _MOVES:
                waiting += node.output
            elif node.op_type in ("DequantizeLinear", "Cast"):
                found.append(node)
            else:
                return None
    return found or None


def _can_end(node: onnx.NodeProto, proto: onnx.ModelProto, shapes: dict[str, tuple[int | None, ...]]) -> bool:
    """Whether the node can be rewritten in float32: a Cast, or a dequantization with one scale."""
    if node.op_type == "Cast":
        return True
    held = {tensor.name: tensor for tensor in proto.graph.initializer}
    scale = held.get(node.input[1])
    return (
        scale is not None
        and scale.data_type == onnx.TensorProto.FLOAT
        and int(np.prod(scale.dims)) == 1
        and not any(a.name in ("block_size", "output_dtype") and a.i for a in node.attribute)
        and (len(node.input) < 3 or not node.input[2] or node.input[2] in held)
    )


def _end(node: onnx.NodeProto, proto: onnx.ModelProto, fresh: FreshNames, model: Model) -> None:
    """Rewrites the node as (x - zero point) * scale in float32; the difference of two 8-bit numbers is exact."""
    if node.op_type == "Cast":
        return
    held = {tensor.name: tensor for tensor in proto.graph.initializer}
    scale = np.asarray(model.array(held[node.input[1]])).reshape(())
    zero = np.float32(0)
    if len(node.input) > 2 and node.input[2]:
        zero = np.asarray(model.array(held[node.input[2]])).reshape(-1)[0].astype(np.float32)
    value, output, name = node.input[0], node.output[0], node.name or node.output[0]
    index = list(proto.graph.node).index(node)
    point, factor, moved = (fresh.value(f"{output}/{part}") for part in ("zero_point", "scale", "moved"))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(zero, np.float32), point))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(scale, np.float32), factor))
    node.CopyFrom(helper.make_node("Mul", [moved, factor], [output], name=name))
    proto.graph.node.insert(
        index, helper.make_node("Sub", [value, point], [moved], name=f"{name}/zero_point")
    )
