"""Converts protobuf types to shapes and element types."""

from __future__ import annotations

import onnx
from onnx import helper

Dim = int | str | None
"""One size: a number, a symbol of shape inference, or unknown."""


def dims_of(type_: onnx.TypeProto) -> tuple[Dim, ...] | None:
    """Returns dimensions of a tensor; None for an unknown rank and for sequences, optionals and maps."""
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)


def type_of_tensor(tensor: onnx.TensorProto) -> onnx.TypeProto:
    type_: onnx.TypeProto = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return type_


def element_type(type_: onnx.TypeProto) -> int:
    """Returns the element type of a tensor, or of the tensors in a sequence or optional; 0 if unknown."""
    while type_.WhichOneof("value") in ("sequence_type", "optional_type"):
        type_ = getattr(type_, str(type_.WhichOneof("value"))).elem_type
    return int(type_.tensor_type.elem_type)
