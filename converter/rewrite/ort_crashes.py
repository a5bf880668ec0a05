"""Rewrites models that crash onnxruntime."""

from __future__ import annotations

import onnx
from onnx import helper

from trtsmith.converter.graph.infer import value_types
from trtsmith.converter.graph.walk import all_graphs, refill
from trtsmith.converter.model.model import Model


def without_crashes(model: Model) -> Model:
    """Returns the model with a zero bias for each onnxruntime Attention that lacks one; itself if there is none.

    onnxruntime 1.31.1 reads the bias of that operator without asking for it and takes the whole process down.
    """
    if not any(map(_bare, _nodes(model.proto))):
        return model
    proto = model.copied()
    types = value_types(proto)
    for node in _nodes(proto):
        weights = types.get(node.input[1]) if _bare(node) else None
        if weights is None or not weights.shape.dim or not weights.shape.dim[-1].dim_value:
            continue
        name = f"{node.output[0]}/no_bias"
        size = weights.shape.dim[-1].dim_value
        proto.graph.initializer.append(helper.make_tensor(name, weights.elem_type, [size], [0.0] * size))
        inputs = [*node.input[:2], name, *node.input[3:]]
        refill(node.input, inputs)
    return model.with_proto(proto)


def _nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for graph in all_graphs(proto.graph) for node in graph.node]


def _bare(node: onnx.NodeProto) -> bool:
    kind = node.domain, node.op_type
    return kind == ("com.microsoft", "Attention") and len(node.input) > 1 and not "".join(node.input[2:3])
