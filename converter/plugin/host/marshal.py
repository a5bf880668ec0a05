"""Converts between plain values and the structures of the C ABI."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host_library import text
from trtsmith.converter.plugin.host.plugin_values import Dim, EncodedField, Shape, TensorDesc


class Io:
    """The inputs and outputs of one call, in C. `c` is valid while this object lives."""

    def __init__(
        self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], implicit_batch: bool
    ) -> None:
        strip = 1 if implicit_batch else 0
        self.count = len(inputs) + len(outputs)
        # One array, so that a position counts through inputs and outputs.
        self.tensors = (abi.CTensor * max(self.count, 1))(
            *(_to_tensor(desc, strip) for desc in (*inputs, *outputs))
        )
        first = ctypes.cast(self.tensors, ctypes.POINTER(abi.CTensor))
        after = ctypes.cast(
            ctypes.byref(self.tensors, len(inputs) * ctypes.sizeof(abi.CTensor)), ctypes.POINTER(abi.CTensor)
        )
        batch = inputs[0].shape[0] if strip and inputs and inputs[0].shape else 1
        self.c = abi.CIo(first, len(inputs), after, len(outputs), batch)


def to_dims(shape: Shape | None) -> abi.CDims:
    if shape is None:
        return abi.CDims(-1)
    if len(shape) > abi.MAX_DIMS:
        return abi.CDims(len(shape))  # the host refuses it with its message
    return abi.CDims(len(shape), (ctypes.c_int64 * abi.MAX_DIMS)(*shape))


def read_field(raw: abi.CField) -> EncodedField:
    """Copy a field that a plugin gave. A null pointer reads as no bytes."""
    type_ = abi.FIELD_TYPES[raw.type] if 0 <= raw.type < len(abi.FIELD_TYPES) else f"type {raw.type}"
    size = (abi.FIELD_BITS.get(type_, 8) * max(raw.length, 0) + 7) // 8
    data = ctypes.string_at(raw.data, size) if raw.data and size else b""
    return EncodedField(text(raw.name) or "", type_, data, raw.length)


def _to_tensor(desc: TensorDesc, strip: int) -> abi.CTensor:
    def cut(shape: Shape | None) -> abi.CDims:
        return to_dims(None if shape is None else shape[strip:])

    return abi.CTensor(
        abi.DTYPES.index(desc.dtype),
        abi.FORMATS.index(desc.format),
        desc.scale,
        cut(desc.shape),
        cut(desc.minimum),
        cut(desc.optimum),
        cut(desc.maximum),
    )


def read_dim(raw: abi.CDim) -> Dim:
    """One dimension of an output."""
    return Dim(
        None if raw.value < 0 else raw.value,
        None if raw.evaluated < 0 else raw.evaluated,
        None if raw.size_output < 0 else raw.size_output,
        text(raw.text) or "",
    )
