"""Changes a graph unknown to the search. Each change leaves graphs without its node unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.model.model import Model

Change = Callable[[Model], Model]


def weight(node: str, position: int, edit: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Changes the value of one input of the node, an initializer; its other readers keep the old value."""

    def change(proto: onnx.ModelProto, found: onnx.NodeProto, model: Model) -> None:
        name = found.input[position]
        tensor = next(t for t in proto.graph.initializer if t.name == name)
        edited = edit(np.array(model.array(tensor))).astype(model.array(tensor).dtype)
        found.input[position] = f"{name}/planted"
        proto.graph.initializer.append(
            numpy_helper.from_array(np.ascontiguousarray(edited), f"{name}/planted")
        )

    return _at(node, change)


def attribute(node: str, **values: object) -> Change:
    """Changes attributes of the node."""

    def change(proto: onnx.ModelProto, found: onnx.NodeProto, model: Model) -> None:
        kept = [a for a in found.attribute if a.name not in values]
        made = [helper.make_attribute(name, value) for name, value in values.items()]
        node = onnx.NodeProto(attribute=[*kept, *made])
        del found.attribute[:]
        found.attribute.extend(node.attribute)

    return _at(node, change)


def swapped(node: str) -> Change:
    """Swaps the first two inputs of the node."""

    def change(proto: onnx.ModelProto, found: onnx.NodeProto, model: Model) -> None:
        found.input[0], found.input[1] = found.input[1], found.input[0]

    return _at(node, change)


def operator(node: str, op_type: str) -> Change:
    """Replaces the operator, with the same inputs."""

    def change(proto: onnx.ModelProto, found: onnx.NodeProto, model: Model) -> None:
        found.op_type = op_type

    return _at(node, change)


def narrowed(node: str, elem_type: int) -> Change:
    """Passes the node's result through a narrower type and back."""

    def change(proto: onnx.ModelProto, found: onnx.NodeProto, model: Model) -> None:
        name, wide = found.output[0], f"{found.output[0]}/wide"
        found.output[0] = wide
        casts = [
            helper.make_node("Cast", [wide], [f"{name}/narrow"], to=elem_type),
            helper.make_node("Cast", [f"{name}/narrow"], [name], to=onnx.TensorProto.FLOAT),
        ]
        _insert_after(proto, found, casts)

    return _at(node, change)


def transposed(node: str) -> Change:
    """Swaps the last two axes of the node's result, like a kernel that confuses rows and columns."""

    def change(proto: onnx.ModelProto, found: onnx.NodeProto, model: Model) -> None:
        name, right = found.output[0], f"{found.output[0]}/right"
        found.output[0] = right
        _insert_after(proto, found, [helper.make_node("Transpose", [right], [name], perm=[0, 2, 1])])

    return _at(node, change)


def is_called(name: str, node: str, op_type: str) -> bool:
    """Whether the name is the node's, or one that rewriting into a plugin node derives from it."""
    return re.fullmatch(f"{re.escape(node)}(/{re.escape(op_type)})*", name) is not None


def _at(node: str, change: Callable[[onnx.ModelProto, onnx.NodeProto, Model], None]) -> Change:
    def apply(model: Model) -> Model:
        proto = model.copied()
        found = next((n for n in proto.graph.node if is_called(n.name, node, n.op_type)), None)
        if found is None:
            return model
        change(proto, found, model)
        return model.with_proto(proto)

    return apply


def _insert_after(proto: onnx.ModelProto, node: onnx.NodeProto, more: list[onnx.NodeProto]) -> None:
    at = next(i for i, other in enumerate(proto.graph.node) if other.name == node.name)
    nodes = onnx.GraphProto(node=[*proto.graph.node[: at + 1], *more, *proto.graph.node[at + 1 :]])
    del proto.graph.node[:]
    proto.graph.node.extend(nodes.node)
