"""Lists the element types of tensors: ONNX's number, numpy's name, ONNX text's word, and the bits."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes  # noqa: F401  # makes np.dtype("bfloat16") known
import numpy as np

_TABLE = (
    (1, "float32", "float", 32),
    (2, "uint8", "uint8", 8),
    (3, "int8", "int8", 8),
    (4, "uint16", "uint16", 16),
    (5, "int16", "int16", 16),
    (6, "int32", "int32", 32),
    (7, "int64", "int64", 64),
    (8, "object", "string", 0),
    (9, "bool", "bool", 8),
    (10, "float16", "float16", 16),
    (11, "float64", "double", 64),
    (12, "uint32", "uint32", 32),
    (13, "uint64", "uint64", 64),
    (14, "complex64", "complex64", 64),
    (15, "complex128", "complex128", 128),
    (16, "bfloat16", "bfloat16", 16),
    (17, "float8_e4m3fn", "float8e4m3fn", 8),
    (18, "float8_e4m3fnuz", "float8e4m3fnuz", 8),
    (19, "float8_e5m2", "float8e5m2", 8),
    (20, "float8_e5m2fnuz", "float8e5m2fnuz", 8),
    (21, "uint4", "uint4", 4),
    (22, "int4", "int4", 4),
    (23, "float4_e2m1fn", "float4e2m1", 4),
    (24, "float8_e8m0fnu", "float8e8m0", 8),
    (25, "uint2", "uint2", 2),
    (26, "int2", "int2", 2),
    (27, "float6_e2m3fn", "float6e2m3", 6),
    (28, "float6_e3m2fn", "float6e3m2", 6),
)

NUMBERS: Mapping[str, int] = {name: number for number, name, _, _ in _TABLE}
"""The value of onnx.TensorProto.DataType by name; strings are numpy's "object"."""

WORDS: Mapping[str, str] = {name: word for _, name, word, _ in _TABLE}
"""The word of ONNX text by name."""

BITS: Mapping[int, int] = {number: bits for number, _, _, bits in _TABLE if bits}
"""Bits of one element in raw_data, by number. Types of less than a byte are packed, the last byte padded; strings
have no raw_data."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""The floating-point types that ONNX's operators compute in."""

_NAMES: Mapping[int, str] = {number: name for number, name, _, _ in _TABLE}


def dtype_name(number: int) -> str:
    """Names an onnx.TensorProto.DataType as numpy and ml_dtypes do; "object" for strings. KeyError for 0, no type."""
    return _NAMES[number]


def type_string(number: int) -> str:
    """Returns the type of a tensor as the schemas of operators and onnxruntime write it: "tensor(float)"."""
    return f"tensor({WORDS[dtype_name(number)]})"


def numpy_dtype(dtype: int | str) -> np.dtype[np.generic]:
    """Returns the numpy type of an element, by number or name; those that numpy lacks are of ml_dtypes."""
    return np.dtype(dtype_name(dtype) if isinstance(dtype, int) else dtype)
