"""Defines the plain values that plugins take and return: fields, tensor descriptions, shapes. Needs no library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.importers.dtypes import BITS, NUMBERS, numpy_dtype

Shape = tuple[int, ...]


@dataclass(frozen=True)
class FieldSpec:
    """One field as a creator lists it. length: as listed, often only a hint. data: the default."""

    name: str | None
    type: str
    length: int
    data: bytes | None = None

    def plain_default(self) -> list[int | float] | str | None:
        """Returns the default in JSON's types; None where there is none, or for a type without plain values."""
        if self.data is None or self.length < 1:
            return None
        if self.type == "char":
            return self.data.split(b"\0")[0].decode("utf-8", "replace")
        if self.type not in PLAIN:
            return None
        values: list[int | float] = np.frombuffer(self.data, dtype=self.type).tolist()
        return values


@dataclass(frozen=True)
class EncodedField:
    """One field with its value. length counts elements of `type`; a "char" field counts its closing NUL."""

    name: str
    type: str
    data: bytes
    length: int


Value = int | float | str | tuple[int, ...] | tuple[float, ...] | EncodedField
State = tuple[EncodedField, ...] | bytes
"""A serialised plugin: fields (V3) or bytes (V2)."""


@dataclass(frozen=True)
class TensorDesc:
    """One input or output. dtype and format are names of plugin_abi.DTYPES and FORMATS.

    shape: with the batch, for every kind of plugin; -1 for an unknown dimension. minimum, optimum, maximum: the
    profile; None: the shape itself.
    """

    dtype: str
    shape: Shape
    format: str = "linear"
    scale: float = 1.0
    minimum: Shape | None = None
    optimum: Shape | None = None
    maximum: Shape | None = None


@dataclass(frozen=True)
class OutputDim:
    """One dimension of an output, as the plugin's shape rule gives it.

    value:       the constant, or None for an expression of unknown dimensions.
    evaluated:   the value with every known input dimension put in (a size tensor's upper bound); None if unknown.
    size_output: index of the output that holds the size at run time; None: the size is known from the inputs.
    text:        the expression, such as "floor_div(i0.d2, 2)".
    """

    value: int | None
    evaluated: int | None
    size_output: int | None
    text: str


PLAIN = frozenset({"float16", "float32", "float64", "int8", "int16", "int32", "int64"})
"""Types of fields that have plain values."""


def field_value(name: str, value: Value, type_: str | None = None) -> EncodedField:
    """Makes the field for a plain value. type_: None takes the type that TensorRT's ONNX parser would take.

    ints become int32, floats float32, strings char with a closing NUL. Raises ValueError for a value that the type
    cannot hold.
    """
    if isinstance(value, EncodedField):
        return value
    if isinstance(value, str):
        data = value.encode() + b"\0"
        return EncodedField(name, "char", data, len(data))
    items = value if isinstance(value, tuple) else (value,)
    if type_ is None:
        type_ = "float32" if any(isinstance(item, float) for item in items) else "int32"
    if type_ not in PLAIN:
        raise ValueError(f"field {name}: no plain value can be written as {type_}")
    dtype = np.dtype(type_)
    if dtype.kind == "i" and any(not np.iinfo(dtype).min <= item <= np.iinfo(dtype).max for item in items):
        raise ValueError(f"field {name}: {value} does not fit {type_}")
    return EncodedField(name, type_, np.asarray(items, dtype=dtype).tobytes(), len(items))


def field_values(values: Mapping[str, Value], specs: Iterable[FieldSpec]) -> tuple[EncodedField, ...]:
    """Makes fields for plain values, with the types that the creator lists for them."""
    types = {spec.name: spec.type for spec in specs}
    result = []
    for name, value in values.items():
        type_ = types.get(name)
        result.append(field_value(name, value, type_ if type_ in PLAIN else None))
    return tuple(result)


def array_dtype(name: str) -> np.dtype[np.generic]:
    """Returns the numpy type of a TensorRT element type. Raises ValueError for types of less than a byte, and for no
    type.
    """
    if BITS.get(NUMBERS.get(name, 0), 0) < 8:
        raise ValueError(f"{name} has no numpy type")
    return numpy_dtype(name)


def element_type(dtype: np.dtype[np.generic]) -> str:
    """Returns the name of a numpy type in plugin_abi.DTYPES. Raises ValueError for types that TensorRT lacks."""
    if dtype.name not in abi.DTYPES:
        raise ValueError(f"TensorRT has no element type {dtype.name}; it has {', '.join(abi.DTYPES)}")
    return str(dtype.name)


def describe_arrays(arrays: Sequence[np.ndarray]) -> tuple[TensorDesc, ...]:
    return tuple(TensorDesc(element_type(array.dtype), array.shape) for array in arrays)
