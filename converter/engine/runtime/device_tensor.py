"""Represents a tensor in device memory, which PyTorch, CuPy and others take without a copy.

cuda-core makes its DLPack capsules. It names no bfloat16 and no float8: there it makes one of an unsigned integer of the
same size, and owns what it points to; here only the type that is written in it is changed. The layout is DLPack's C ABI
(github.com/dmlc/dlpack, dlpack.h), version 1 and before it.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from trtsmith.converter.engine.runtime.device import Device, Memory, Stream

CAPSULE_TYPES: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.uint16),
    np.dtype(ml_dtypes.float8_e4m3fn): np.dtype(np.uint8),
}
"""The type of the capsule that cuda-core is asked for."""

_CODES = {np.dtype(ml_dtypes.bfloat16): 4, np.dtype(ml_dtypes.float8_e4m3fn): 10}  # DLDataTypeCode


class _DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


def capsule_of(view: Any, dtype: np.dtype[Any], max_version: tuple[int, int] | None) -> object:
    """Makes the DLPack capsule of a StridedMemoryView, with `dtype` as its type."""
    capsule = view.__dlpack__(max_version=max_version)
    if dtype in CAPSULE_TYPES:
        _tensor_of(capsule).dtype.code = _CODES[dtype]
    return capsule


def _tensor_of(capsule: object) -> _DLTensor:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    if is_valid(capsule, b"dltensor_versioned"):
        address = get(capsule, b"dltensor_versioned")
        versioned = _DLManagedTensorVersioned.from_address(address)
        tensor: _DLTensor = versioned.dl_tensor
        return tensor
    return _DLTensor.from_address(get(capsule, b"dltensor"))  # the first member of DLManagedTensor


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
        """Copies the tensor to host memory, once the stream is done."""
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
        """Makes a DLPack capsule. stream: the consumer's; it waits for ours, unless it is -1."""
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
