"""Lists the element types that TensorRT does not compute in, and the legal type that holds the values of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto as T

from trtsmith.importers.dtypes import numpy_dtype


@dataclass(frozen=True)
class Integer:
    """Range of an integer type."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def high(self) -> int:
        return self.low + (1 << self.bits) - 1

    def holds(self, other: Integer) -> bool:
        return self.low <= other.low and other.high <= self.high


INTEGERS: Mapping[int, Integer] = {
    T.INT2: Integer(2, True),
    T.UINT2: Integer(2, False),
    T.INT4: Integer(4, True),
    T.UINT4: Integer(4, False),
    T.INT8: Integer(8, True),
    T.UINT8: Integer(8, False),
    T.INT16: Integer(16, True),
    T.UINT16: Integer(16, False),
    T.INT32: Integer(32, True),
    T.UINT32: Integer(32, False),
    T.INT64: Integer(64, True),
    T.UINT64: Integer(64, False),
}


@dataclass(frozen=True)
class SmallFloat:
    """A format of a byte or less. `mantissa` bits are stored; `low` is the exponent of the smallest normal number.

    infinite: whether it has infinities. nan: whether it has NaN. negative_zero: whether it tells -0 from 0.
    """

    mantissa: int
    low: int
    largest: float
    infinite: bool = False
    nan: bool = True
    negative_zero: bool = True


SMALL_FLOATS: Mapping[int, SmallFloat] = {
    T.FLOAT8E4M3FN: SmallFloat(3, -6, 448.0),
    T.FLOAT8E4M3FNUZ: SmallFloat(3, -7, 240.0, negative_zero=False),
    T.FLOAT8E5M2: SmallFloat(2, -14, 57344.0, infinite=True),
    T.FLOAT8E5M2FNUZ: SmallFloat(2, -15, 57344.0, negative_zero=False),
    T.FLOAT4E2M1: SmallFloat(1, 0, 6.0, nan=False),
}
"""The formats of https://onnx.ai/onnx/technical/float8.html and float4.html."""

ILLEGAL_TYPES: Mapping[int, int] = {
    T.DOUBLE: T.FLOAT,
    T.UINT8: T.INT32,
    T.INT16: T.INT32,
    T.UINT16: T.INT32,
    T.INT4: T.INT32,
    T.UINT4: T.INT32,
    T.INT2: T.INT32,
    T.UINT2: T.INT32,
    T.UINT32: T.INT64,
    T.UINT64: T.INT64,
    T.FLOAT8E8M0: T.FLOAT,
    **dict.fromkeys(SMALL_FLOATS, T.FLOAT),
}
"""The legal type of each type that TensorRT does not compute in."""

QUANTIZED = frozenset({T.FLOAT8E4M3FN, T.FLOAT8E5M2, T.FLOAT4E2M1, T.INT4, T.UINT4, T.FLOAT8E8M0})
"""Types that TensorRT keeps between QuantizeLinear and DequantizeLinear, as it does int8."""


def legal_type(elem: int) -> int:
    return ILLEGAL_TYPES.get(elem, elem)


def legal_array(array: np.ndarray, elem: int) -> np.ndarray:
    """Converts the array to the legal type of its ONNX type; float64 beyond float32's range becomes infinite."""
    with np.errstate(over="ignore"):
        return array.astype(numpy_dtype(legal_type(elem)))


def retyped(type_: onnx.TypeProto) -> bool:
    """Changes a type to its legal type, in sequences and optionals too. Tells whether that changed it."""
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return retyped(getattr(type_, kind).elem_type)
    if kind != "tensor_type" or type_.tensor_type.elem_type not in ILLEGAL_TYPES:
        return False
    type_.tensor_type.elem_type = legal_type(type_.tensor_type.elem_type)
    return True
