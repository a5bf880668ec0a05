"""Represents a tensor in device memory, which PyTorch, CuPy and others take without a copy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from trtsmith.converter.engine.runtime.device import Device, Memory, Stream
from trtsmith.converter.engine.runtime.dlpack import CAPSULE_TYPES, capsule_of

_CUDA = 2  # kDLCUDA of dlpack.h
_LEGACY_STREAM = 1  # what DLPack means by stream=None, and how both protocols write the stream 0


class DeviceTensor:
    """A C-contiguous tensor on the GPU: shape, dtype (of numpy or ml_dtypes), pointer.

    `torch.from_dlpack(tensor)` and `cupy.from_dlpack(tensor)` share its memory; so does whatever takes
    `__cuda_array_interface__` (which has no name for bfloat16 and float8: those go by DLPack). Both tell the consumer
    to wait for the stream that writes the tensor. The memory lives as long as anybody shares it.
    An output of a Session is written anew by the session's next run: copy what has to outlive it.
    """

    __slots__ = ("_device", "_memory", "dtype", "pointer", "shape", "stream")

    def __init__(
        self, device: Device, stream: Stream, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._device = device
        self._memory = memory
        self.stream = stream
        self.shape = shape
        self.dtype = dtype
        self.pointer = memory.pointer

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"DeviceTensor(shape={self.shape}, dtype={self.dtype}, pointer={self.pointer:#x})"

    def numpy(self) -> np.ndarray:
        """A copy in host memory, once the stream is done."""
        self._device.make_current()
        array = np.empty(self.shape, self.dtype)
        self._device.download(array, self.pointer, self.stream)
        return array

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._device.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule. stream: the consumer's; it waits for ours, unless it is -1."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("a DeviceTensor is shared as it is, on its own device: use .numpy() for a copy")
        self._device.make_current()
        if stream != -1:
            self._device.let_wait(_LEGACY_STREAM if stream is None else stream, self.stream)
        capsule_type = CAPSULE_TYPES.get(self.dtype, self.dtype)
        return capsule_of(
            self._device.view_memory(self._memory, self.shape, capsule_type), self.dtype, max_version
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype in CAPSULE_TYPES:
            raise AttributeError(f"__cuda_array_interface__ has no name for {self.dtype}: use DLPack")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer if self.size else 0, False),
            "strides": None,
            "stream": self.stream.handle or _LEGACY_STREAM,
            "version": 3,
        }
