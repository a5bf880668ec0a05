"""Holds a model in memory: a graph without weights, and the mapped files with the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from trtsmith.converter.model.tensors import (
    Reference,
    byte_count,
    is_external,
    is_packed,
    reference_of,
    set_reference,
)
from trtsmith.converter.model.weights import MappedFile
from trtsmith.importers.dtypes import numpy_dtype

INLINE_LIMIT = (
    1024  # bytes; data from this size on stays in its file. Smaller constants are shapes, axes, scalars.
)


@dataclass(frozen=True, eq=False)
class Model:
    """An ONNX model whose weights stay in their files.

    proto: the skeleton: a valid ModelProto in which each initializer and tensor attribute of 1 KiB or more is
    external
        data. Those that were inside the .onnx refer to that file itself. Treat it as read-only; see
        `with_proto`.
    path: the file that it came from.
    files: the mapped files by the location that the external data names; `path` itself under its own file
    name.
    """

    proto: onnx.ModelProto
    path: Path
    files: Mapping[str, MappedFile]

    def copied(self) -> onnx.ModelProto:
        """Returns a copy of the proto for editing; its weights stay in this model's files."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        return proto

    def array(self, tensor: onnx.TensorProto) -> npt.NDArray[Any]:
        """Returns the values of one of this model's tensors, in its shape, read-only.

        A view over the mapped file where there is one, and a copy for small tensors and for types of less
        than a byte. bfloat16, float8 and sub-byte types are those of ml_dtypes. The data pointer may be
        unaligned: protobuf pads nothing.
        """
        if not is_external(tensor):
            values = np.asarray(onnx.numpy_helper.to_array(tensor))
        elif is_packed(tensor.data_type):
            inline = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
            inline.raw_data = self.bytes(tensor).tobytes()
            values = np.asarray(onnx.numpy_helper.to_array(inline))
        else:
            values = self.bytes(tensor).view(numpy_dtype(tensor.data_type)).reshape(tuple(tensor.dims))
        values.flags.writeable = False
        return values

    def bytes(self, tensor: onnx.TensorProto) -> npt.NDArray[np.uint8]:
        """Returns the raw bytes of an external tensor: a read-only view, uint8[n]."""
        reference = reference_of(tensor)
        return self.files[reference.location].bytes[reference.offset : reference.offset + reference.length]

    def tensor(self, values: npt.NDArray[Any], name: str = "") -> onnx.TensorProto:
        """Makes a TensorProto of `values`. Data in one of this model's files is referenced, not copied, so reshapes and
        leading slices of a weight are free; other data is copied into the proto.
        """
        if values.nbytes >= INLINE_LIMIT and values.flags.c_contiguous and values.dtype != np.object_:
            data_type = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
            for location, file in self.files.items():
                offset = None if is_packed(data_type) else file.offset_of(values)
                if offset is not None:
                    tensor = onnx.TensorProto(name=name, data_type=data_type, dims=values.shape)
                    length = byte_count(data_type, values.shape)
                    set_reference(tensor, Reference(location, offset, length))
                    return tensor
        return onnx.numpy_helper.from_array(values, name)

    def with_proto(self, proto: onnx.ModelProto) -> Model:
        """Returns the model with another graph, which may refer only to this model's data."""
        return replace(self, proto=proto)
