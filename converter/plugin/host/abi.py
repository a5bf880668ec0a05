"""Declares the C ABI of libtrtsmith_host.so for ctypes: enumerations, structures and function signatures, nothing more.

Mirrors plugins_cpp/host/api.h; ABI must equal its TSH_ABI.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from enum import IntEnum

from trtsmith.importers.dtypes import BITS, NUMBERS

ABI = 3
MAX_DIMS = 8

DTYPES: tuple[str, ...] = (
    "float32", "float16", "int8", "int32", "bool", "uint8", "float8_e4m3fn", "bfloat16", "int64", "int4",
    "float4_e2m1fn", "float8_e8m0fnu",
)  # fmt: skip
"""Element types by the value of nvinfer1::DataType."""

FORMATS: tuple[str, ...] = (
    "linear", "chw2", "hwc8", "chw4", "chw16", "chw32", "dhwc8", "cdhw32", "hwc", "dla_linear", "dla_hwc4", "hwc16",
    "dhwc",
)  # fmt: skip
"""Memory layouts by the value of nvinfer1::TensorFormat."""

FIELD_TYPES: tuple[str, ...] = (
    "float16", "float32", "float64", "int8", "int16", "int32", "char", "dims", "unknown", "bfloat16", "int64",
    "float8", "int4", "float4",
)  # fmt: skip
"""Types of plugin fields by the value of nvinfer1::PluginFieldType."""

FIELD_BITS: Mapping[str, int] = {
    "char": 8, "dims": 576, "unknown": 8, "float8": 8, "float4": 4,
    **{name: BITS[NUMBERS[name]] for name in FIELD_TYPES if name in NUMBERS},
}  # fmt: skip
"""Bits of one element of a plugin field."""


class Status(IntEnum):
    """Status of a call; see tsh_status."""

    OK = 0
    REFUSED = 1
    BROKEN = 2
    USAGE = 3
    UNSUPPORTED = 4
    CUDA = 5
    LOAD = 6
    NO_CREATORS = 7


class Family(IntEnum):
    """The interface that a plugin implements; see tsh_family."""

    V2 = 0
    V2_EXT = 1
    V2_IOEXT = 2
    V2_DYNAMICEXT = 3
    V3 = 4


class Finder(IntEnum):
    """The argument of setLoggerFinder; see tsh_library_ask_again."""

    KEPT = 0
    OURS = 1
    NULL = 2


class CField(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("data", c_void_p), ("type", c_int32), ("length", c_int32))


class CDims(ctypes.Structure):
    _fields_ = (("n", c_int32), ("d", c_int64 * MAX_DIMS))


class CTensor(ctypes.Structure):
    _fields_ = (
        ("dtype", c_int32),
        ("format", c_int32),
        ("scale", c_float),
        ("dims", CDims),
        ("min", CDims),
        ("opt", CDims),
        ("max", CDims),
    )


class CCreatorInfo(ctypes.Structure):
    _fields_ = (
        ("kind", c_char_p),
        ("major", c_int32),
        ("minor", c_int32),
        ("family", c_int32),
        ("name", c_char_p),
        ("version", c_char_p),
        ("namespace", c_char_p),
        ("has_fields", c_int32),
        ("field_count", c_int32),
    )


class CPluginInfo(ctypes.Structure):
    _fields_ = (
        ("family", c_int32),
        ("has_core", c_int32),
        ("has_build", c_int32),
        ("has_runtime", c_int32),
        ("build_version", c_int32),
        ("tensorrt_version", c_int32),
        ("output_count", c_int32),
        ("format_limit", c_int32),
        ("name", c_char_p),
        ("version", c_char_p),
        ("namespace", c_char_p),
    )


class CDim(ctypes.Structure):
    _fields_ = (("value", c_int64), ("evaluated", c_int64), ("size_output", c_int32), ("text", c_char_p))


class CShape(ctypes.Structure):
    _fields_ = (("n", c_int32), ("d", CDim * MAX_DIMS))


class CIo(ctypes.Structure):
    _fields_ = (
        ("inputs", POINTER(CTensor)),
        ("input_count", c_int32),
        ("outputs", POINTER(CTensor)),
        ("output_count", c_int32),
        ("batch", c_int32),
    )


class CBuffers(ctypes.Structure):
    _fields_ = (
        ("inputs", POINTER(c_void_p)),
        ("outputs", POINTER(c_void_p)),
        ("workspace", c_void_p),
        ("stream", c_void_p),
    )


_HANDLE = c_void_p
_OUT = POINTER(c_void_p)
_INT = POINTER(c_int32)
_IO = POINTER(CIo)

_SIGNATURES: Mapping[str, tuple[object, ...]] = {
    "library_open": (c_char_p, POINTER(c_char_p), c_int32, c_int32, _OUT),
    "library_close": (_HANDLE,),
    "library_how": (_HANDLE, POINTER(c_char_p)),
    "library_creator_count": (_HANDLE, _INT),
    "library_creator": (_HANDLE, c_int32, _OUT),
    "library_ask_again": (_HANDLE, c_int32),
    "creator_describe": (_HANDLE, POINTER(CCreatorInfo)),
    "creator_field": (_HANDLE, c_int32, POINTER(CField)),
    "creator_create": (_HANDLE, c_char_p, POINTER(CField), c_int32, c_int32, _OUT),
    "creator_deserialize": (_HANDLE, c_char_p, c_void_p, c_size_t, _OUT),
    "plugin_destroy": (_HANDLE,),
    "plugin_describe": (_HANDLE, POINTER(CPluginInfo)),
    "plugin_clone": (_HANDLE, _OUT),
    "plugin_attach": (_HANDLE, _OUT),
    "plugin_set_namespace": (_HANDLE, c_char_p),
    "plugin_initialize": (_HANDLE,),
    "plugin_terminate": (_HANDLE,),
    "plugin_output_types": (_HANDLE, _INT, c_int32, _INT, c_int32),
    "plugin_output_shapes": (
        _HANDLE,
        POINTER(CDims),
        POINTER(c_uint32),
        c_int32,
        POINTER(CDims),
        c_int32,
        POINTER(CShape),
        c_int32,
    ),
    "plugin_supports_format": (_HANDLE, c_int32, _IO, _INT),
    "plugin_configure": (_HANDLE, _IO),
    "plugin_workspace": (_HANDLE, _IO, POINTER(c_size_t)),
    "plugin_aliased_input": (_HANDLE, c_int32, _INT),
    "plugin_tactics": (_HANDLE, _INT, c_int32, _INT),
    "plugin_set_tactic": (_HANDLE, c_int32),
    "plugin_timing_cache_id": (_HANDLE, POINTER(c_char_p)),
    "plugin_metadata": (_HANDLE, POINTER(c_char_p)),
    "plugin_serialize_fields": (_HANDLE, POINTER(POINTER(CField)), _INT),
    "plugin_serialize_bytes": (_HANDLE, c_int32, POINTER(c_void_p), POINTER(c_size_t)),
    "plugin_on_shape_change": (_HANDLE, _IO),
    "plugin_enqueue": (_HANDLE, _IO, POINTER(CBuffers)),
    "plugin_time": (_HANDLE, _IO, POINTER(CBuffers), c_int32, c_int32, c_void_p, c_size_t, POINTER(c_float)),
    "plugin_capture": (_HANDLE, _IO, POINTER(CBuffers), _OUT),
    "graph_launch": (c_void_p, c_void_p),
    "graph_destroy": (c_void_p,),
    "device_count": (_INT,),
    "device_describe": (c_int32, c_char_p, c_size_t, _INT, _INT),
    "device_alloc": (c_size_t, _OUT),
    "device_free": (c_void_p,),
    "device_fill": (c_void_p, c_int32, c_size_t),
    "device_copy_in": (c_void_p, c_void_p, c_size_t),
    "device_copy_out": (c_void_p, c_void_p, c_size_t),
    "stream_create": (_OUT,),
    "stream_destroy": (c_void_p,),
    "stream_synchronize": (c_void_p,),
}


def declare(library: ctypes.CDLL) -> None:
    """Gives every function of the host library its argument and result types.

    Raises AttributeError where the library lacks one.
    """
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, f"tsh_{name}")
        function.argtypes = arguments
        function.restype = c_int32
    library.tsh_abi.restype = c_int32
    for name in ("last_error", "take_log"):
        getattr(library, f"tsh_{name}").restype = c_char_p
