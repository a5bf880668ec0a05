"""Edits ONNX files at the level of the protobuf wire format: cuts weights out or puts them back without parsing them.

A model is a tree of length-delimited messages. `rewrite` walks the few kinds that can hold a weight and lets
a function replace each TensorProto on the way; everything else is passed on as slices of the input. The
result is a list of parts, of which an `Extent` stands for bytes that stay in their file. Field numbers are
those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# What each kind of message holds that can lead to a weight: field number -> kind of the child.
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "initializer"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "function": {7: "node", 11: "attribute"},
}
_TENSOR_KINDS = frozenset({"initializer", "tensor"})
_MAX_DEPTH = 100  # protobuf's own limit on nested messages: a deeper file cannot be parsed anyway

# Fields of TensorProto
_DATA_TYPE, _FLOAT_DATA, _RAW_DATA, _DOUBLE_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 2, 4, 9, 10, 13, 14
_FLOAT, _STRING, _DOUBLE = 1, 8, 11  # TensorProto.DataType
_EXTERNAL = 1  # TensorProto.DataLocation

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class MalformedError(ValueError):
    """Raised for bytes that are no protobuf message.

    truncated: a message says that it is longer than what is left of the file.
    """

    def __init__(self, message: str, truncated: bool = False) -> None:
        super().__init__(message)
        self.truncated = truncated


@dataclass(frozen=True)
class Extent:
    """`length` bytes from `offset` of the file `location`; copied only when written."""

    location: str
    offset: int
    length: int


Part = bytes | memoryview | Extent
Parts = Sequence[Part]
OnTensor = Callable[[memoryview, int, int, str], "list[Part] | None"]
Worth = Callable[[int, int], bool]


@dataclass(frozen=True)
class _WireField:
    number: int
    wire_type: int
    start: int  # of the tag
    body: int  # of the value
    stop: int  # one past the value


def size_of(part: Part) -> int:
    return part.length if isinstance(part, Extent) else len(part)


def total_size(parts: Parts) -> int:
    return sum(size_of(part) for part in parts)


def encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def raw_data_header(length: int) -> bytes:
    """Returns the tag and length in front of `length` bytes of TensorProto.raw_data."""
    return encode_varint(_RAW_DATA << 3 | _BYTES) + encode_varint(length)


def _varint(view: memoryview, pos: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if pos >= end:
            raise MalformedError(f"it ends inside a number, at byte {pos}", truncated=True)
        byte = view[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, pos
    raise MalformedError(f"a number at byte {pos} is longer than 64 bits")


def _fields(view: memoryview, start: int, end: int) -> Iterator[_WireField]:
    pos = start
    while pos < end:
        tag_at = pos
        tag, pos = _varint(view, pos, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise MalformedError(f"field number 0 at byte {tag_at}")
        if wire_type == _BYTES:
            length, pos = _varint(view, pos, end)
            stop = pos + length
        elif wire_type == _VARINT:
            _, stop = _varint(view, pos, end)
        elif wire_type in (_FIXED64, _FIXED32):
            stop = pos + (8 if wire_type == _FIXED64 else 4)
        else:
            raise MalformedError(f"wire type {wire_type}, which ONNX never uses, at byte {tag_at}")
        if stop > end:
            raise MalformedError(
                f"field {number} at byte {tag_at} needs {stop - end} bytes more than there are",
                truncated=True,
            )
        yield _WireField(number, wire_type, tag_at, pos, stop)
        pos = stop


def rewrite(view: memoryview, on_tensor: OnTensor, worth: Worth) -> list[Part]:
    """Rewrites the serialised ModelProto in `view`, with new parts from `on_tensor` for tensors.

    on_tensor(view, start, stop, kind): the parts that replace that TensorProto, or None to leave it as it is;
    kind is
        "initializer", or "tensor" for a tensor attribute.
    worth(start, stop): whether a message can hold a tensor to replace at all; False skips it unread, which is
    what
        makes this fast.
    Raises MalformedError.
    """
    new = _rewrite(view, 0, len(view), "model", on_tensor, worth, 0)
    return [view] if new is None else new


def _rewrite(
    view: memoryview, start: int, end: int, kind: str, on_tensor: OnTensor, worth: Worth, depth: int
) -> list[Part] | None:
    if depth > _MAX_DEPTH:
        raise MalformedError(f"messages are nested more than {_MAX_DEPTH} deep")
    children = _CHILDREN[kind]
    parts: list[Part] = []
    kept = start
    for field in _fields(view, start, end):
        child = children.get(field.number) if field.wire_type == _BYTES else None
        if child is None or not worth(field.body, field.stop):
            continue
        if child in _TENSOR_KINDS:
            new = on_tensor(view, field.body, field.stop, child)
        else:
            new = _rewrite(view, field.body, field.stop, child, on_tensor, worth, depth + 1)
        if new is None:
            continue
        if kept < field.start:
            parts.append(view[kept : field.start])
        parts.append(encode_varint(field.number << 3 | _BYTES) + encode_varint(total_size(new)))
        parts.extend(new)
        kept = field.stop
    if not parts:
        return None
    if kept < end:
        parts.append(view[kept:end])
    return parts


def cut_weights(view: memoryview, location: str, threshold: int) -> bytes:
    """Returns the serialised model without weights: tensors of `threshold` bytes or more become external data.

    Their entries point into the very bytes of `view`, under the name `location`. raw_data is cut, and so are
    float_data and double_data, whose packed form is the same little-endian bytes. Raises MalformedError.
    """

    def on_tensor(view: memoryview, start: int, stop: int, kind: str) -> list[Part] | None:
        return _cut_tensor(view, start, stop, location, threshold)

    parts = rewrite(view, on_tensor, lambda start, stop: stop - start >= threshold)
    return b"".join(part for part in parts if not isinstance(part, Extent))


def _cut_tensor(view: memoryview, start: int, stop: int, location: str, threshold: int) -> list[Part] | None:
    data_type = data_location = 0
    data: list[_WireField] = []
    kept: list[Part] = []
    for field in _fields(view, start, stop):
        if field.number == _DATA_TYPE and field.wire_type == _VARINT:
            data_type, _ = _varint(view, field.body, field.stop)
        if field.number == _DATA_LOCATION and field.wire_type == _VARINT:
            data_location, _ = _varint(view, field.body, field.stop)
        if field.number in (_FLOAT_DATA, _RAW_DATA, _DOUBLE_DATA):
            data.append(field)
        elif field.number not in (_EXTERNAL_DATA, _DATA_LOCATION):
            kept.append(view[field.start : field.stop])
    # Anything unusual (data twice, unpacked, in two fields) stays as it is, for protobuf and the checks to
    # judge.
    if len(data) != 1 or data_location == _EXTERNAL or data[0].wire_type != _BYTES:
        return None
    field = data[0]
    length = field.stop - field.body
    right_type = {
        _RAW_DATA: data_type != _STRING,
        _FLOAT_DATA: data_type == _FLOAT,
        _DOUBLE_DATA: data_type == _DOUBLE,
    }
    if length < threshold or not right_type[field.number]:
        return None
    entries = (("location", location), ("offset", str(field.body)), ("length", str(length)))
    for key, value in entries:
        entry = _string_field(1, key) + _string_field(2, value)
        kept.append(encode_varint(_EXTERNAL_DATA << 3 | _BYTES) + encode_varint(len(entry)) + entry)
    kept.append(encode_varint(_DATA_LOCATION << 3) + encode_varint(_EXTERNAL))
    return kept


def _string_field(number: int, text: str) -> bytes:
    data = text.encode()
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(data)) + data
