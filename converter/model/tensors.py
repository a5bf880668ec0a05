"""Reads the data layout of a TensorProto: size, location and consistency."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import onnx

from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import BITS
from trtsmith.importers.problem import Problem

T = onnx.TensorProto

MOST_DIMENSIONS = 64
"""Of a value: numpy has no more, and TensorRT 8."""

_UNREAD = frozenset({T.FLOAT6E2M3, T.FLOAT6E3M2})
"""Types of ONNX that neither onnxruntime nor TensorRT reads."""

TYPED_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_MAX_BYTES = 1 << 47  # the address space of a process: nothing larger can be computed with
_NUMBER = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True)
class Reference:
    """The place of an external tensor's data: `length` bytes from `offset` of the file `location`, relative to the model."""

    location: str
    offset: int
    length: int


def is_external(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == T.EXTERNAL)


_NAMES: dict[int, str] = {number: name for name, number in T.DataType.items()}


def data_type_name(data_type: int) -> str:
    return _NAMES.get(data_type, str(data_type))


def element_count(dims: tuple[int, ...]) -> int:
    return math.prod(dims)


def byte_count(data_type: int, dims: tuple[int, ...]) -> int:
    """Returns the number of raw_data bytes of a tensor of this type and shape; exact for any size."""
    return (element_count(dims) * BITS[data_type] + 7) // 8


def is_packed(data_type: int) -> bool:
    """Tells whether several elements share a byte, so that numpy cannot view the raw bytes."""
    return BITS[data_type] < 8


def too_large(dims: tuple[int, ...], bits: int = 8) -> bool:
    """Tells whether an array of this shape cannot exist. A size of 0 does not help, as numpy multiplies the other sizes."""
    return element_count(tuple(size for size in dims if size > 0)) * bits // 8 > _MAX_BYTES


def reference_of(tensor: onnx.TensorProto) -> Reference:
    """Returns the reference of an external tensor that passed `check_tensor`."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    length = entries.get("length") or str(byte_count(tensor.data_type, tuple(tensor.dims)))
    return Reference(entries["location"], int(entries.get("offset") or "0"), int(length))


def checksum_of(tensor: onnx.TensorProto) -> str:
    """Returns the stated SHA-1 of the whole external file, in lower case; "" if none is stated."""
    return next((entry.value for entry in tensor.external_data if entry.key == "checksum"), "").lower()


def set_reference(tensor: onnx.TensorProto, reference: Reference) -> None:
    """Makes `tensor` external, with its data at `reference`; drops its previous data and entries."""
    for field in ("raw_data", "external_data", *TYPED_FIELDS):
        tensor.ClearField(field)
    tensor.data_location = T.EXTERNAL
    for key, value in (
        ("location", reference.location),
        ("offset", str(reference.offset)),
        ("length", str(reference.length)),
    ):
        tensor.external_data.add(key=key, value=value)


def check_tensor(tensor: onnx.TensorProto, where: str) -> Problem | None:
    """Returns the first problem of a tensor, external files aside; reads no weights."""

    def problem(what: str, expected: str, fix: str = "export the model again") -> Problem:
        return Problem(what, where, expected, fix)

    dims, data_type = tuple(tensor.dims), tensor.data_type

    def shape() -> str:
        return f"shape {list(dims[:16])} of type {data_type_name(data_type)}"

    if data_type != T.STRING and (data_type not in BITS or data_type in _UNREAD):
        return problem(f"Its data type is {data_type_name(data_type)}.", "a data type that onnxruntime reads")
    if tensor.HasField("segment"):
        return problem("It is one segment of a larger tensor.", "a whole tensor")
    if len(dims) > MOST_DIMENSIONS or any(size < 0 for size in dims):
        return problem(f"It has {shape()}.", f"at most {MOST_DIMENSIONS} dimensions, none negative")
    if too_large(dims, BITS.get(data_type, 8)):
        return problem(f"It has {shape()}, more than any machine can hold.", "a tensor that fits in memory")
    filled = [field for field in TYPED_FIELDS if len(getattr(tensor, field))]
    if is_external(tensor):
        if filled or tensor.raw_data:
            return problem("It has data both in the model and in an external file.", "one of the two")
        return _check_reference(tensor, problem_where=where, shape=shape())
    if tensor.HasField("raw_data"):
        if data_type == T.STRING or filled:
            return problem(
                "It has raw data beside typed data, or of strings.", "raw_data, or one typed field"
            )
        length, expected = len(tensor.raw_data), byte_count(data_type, dims)
        if length != expected:
            return problem(f"Its data is {length} bytes long.", f"{expected} bytes, for {shape()}")
        return None
    field, expected = _typed_field(data_type, element_count(dims))
    if any(name != field for name in filled):
        return problem(
            f"Its data is in {filled[0] if filled[0] != field else filled[1]}.", f"{field}, for {shape()}"
        )
    count = len(getattr(tensor, field))
    if count != expected:
        return problem(
            f"It has {counted(count, 'value')} in {field}.", f"{counted(expected, 'value')}, for {shape()}"
        )
    return None


def _typed_field(data_type: int, count: int) -> tuple[str, int]:
    """The TensorProto field for `count` elements of a type without raw_data, and its number of entries."""
    if data_type in (T.FLOAT, T.COMPLEX64):
        return "float_data", count * (2 if data_type == T.COMPLEX64 else 1)
    if data_type in (T.DOUBLE, T.COMPLEX128):
        return "double_data", count * (2 if data_type == T.COMPLEX128 else 1)
    if data_type in (T.UINT32, T.UINT64):
        return "uint64_data", count
    if data_type == T.INT64:
        return "int64_data", count
    if data_type == T.STRING:
        return "string_data", count
    per_entry = 8 // BITS[data_type] if BITS[data_type] < 8 else 1
    return "int32_data", -(-count // per_entry)


def _check_reference(tensor: onnx.TensorProto, problem_where: str, shape: str) -> Problem | None:
    def problem(what: str, expected: str) -> Problem:
        return Problem(what, problem_where, expected, "save the model and its external data again")

    keys = [entry.key for entry in tensor.external_data]
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(set(keys)) != len(keys) or not entries.get("location"):
        return problem(
            f"Its external data has the entries {keys[:8]}.", "one location, at most one of any other key"
        )
    if tensor.data_type == T.STRING:
        return problem("It has strings in external data.", "strings inside the model")
    for key in ("offset", "length"):
        value = entries.get(key)
        if value and not _NUMBER.fullmatch(value):
            return problem(
                f"The {key} of its external data is {value[:40]!r}.", "a whole number, not negative"
            )
    expected = byte_count(tensor.data_type, tuple(tensor.dims))
    length = int(entries.get("length") or expected)
    if length != expected:
        return problem(f"Its external data is {length} bytes long.", f"{expected} bytes, for {shape}")
    return None
