"""Makes DLPack capsules of bfloat16 and float8, whose types cuda-core does not name.

cuda-core makes the capsule, of an unsigned integer of the same size, and owns what it points to; here only the type that
is written in it is changed. The layout is DLPack's C ABI (github.com/dmlc/dlpack, dlpack.h), version 1 and before it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

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
    """The DLPack capsule of a StridedMemoryView, with `dtype` as its type."""
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
