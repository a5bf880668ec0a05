"""Stores float4 as float8e4m3fn, which has all of its values, as onnxruntime has no float4 kernel."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
from onnx import TensorProto

from trtsmith.converter.graph.walk import all_graphs, elem_types
from trtsmith.converter.model.check import iter_tensors
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.new_weights import NewWeights


def has_float4(model: Model) -> bool:
    """Tells whether the model declares any value as float4."""
    return TensorProto.FLOAT4E2M1 in elem_types(model.proto.graph)


def without_float4(model: Model) -> Model:
    """Returns the model with float8 constants and declared types instead of float4. Quantizers stay."""
    if not has_float4(model):
        return model
    proto, weights = model.copied(), NewWeights()
    for tensor, _ in iter_tensors(proto):
        if tensor.data_type == TensorProto.FLOAT4E2M1:
            values = model.array(tensor).astype(ml_dtypes.float8_e4m3fn)
            tensor.CopyFrom(weights.tensor(values, tensor.name))
    for graph in all_graphs(proto.graph):
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT4E2M1:
                value.type.tensor_type.elem_type = TensorProto.FLOAT8E4M3FN
    return replace(model, proto=proto, files={**model.files, **weights.files})
