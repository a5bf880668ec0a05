"""Changes any field of any message of a model by protobuf's description of it, so that every part is reached."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_INTEGERS = (*range(6), 7, 8, 16, -1, -2, -3, 64, 127, 255, 4096, 1 << 20, 1 << 31, -(1 << 31), (1 << 31) - 1)
_LARGE = ((1 << 32) + 1, (1 << 63) - 1, -(1 << 63), 1 << 40, 1 << 62)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-8, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    " ",
    "x" * 3000,
    "a/b",
    "../x",
    "/etc/passwd",
    "a\nerror: b",
    "\x1b[31m",
    "naïve",
    "\U0001f600",
    "%s{0}",
    "ai.onnx",
    "com.microsoft",
    "trtsmith",
    "0",
    "-1",
)
_WHOLE = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
_NONE: dict[int, Any] = {FieldDescriptor.CPPTYPE_STRING: ""}
"""What an empty list's elements are made of; 0 for numbers."""
_UNSIGNED = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}


def messages_of(message: Message) -> dict[str, list[Any]]:
    """All messages in it by kind, including itself."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    queue = [message]
    while queue:
        here = queue.pop()
        found[here.DESCRIPTOR.name].append(here)
        for field, value in here.ListFields():
            if field.message_type is not None:
                queue.extend(value if _many(field) else (value,))
    return dict(found)


def change_message(model: onnx.ModelProto, draw: random.Random) -> None:
    """Changes one field. Draws a kind of message first, as otherwise tensors would prevail."""
    found = messages_of(model)
    message = draw.choice(found[draw.choice(sorted(found))])
    present = [field for field, _ in message.ListFields()]
    chosen = present if present and draw.random() < 0.8 else list(message.DESCRIPTOR.fields)
    field = draw.choice(sorted(chosen, key=lambda field: field.number))
    change = _change_many if _many(field) else _change_one
    change(message, field, found, draw)


def _many(field: FieldDescriptor) -> bool:
    # Older protobufs know `label` alone, and newer ones warn of it.
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _change_one(
    message: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random
) -> None:
    if draw.random() < 0.25 and message.HasField(field.name):
        message.ClearField(field.name)
    elif field.message_type is None:
        setattr(message, field.name, _value(field, getattr(message, field.name), found, draw))
    else:
        others = found.get(field.message_type.name)
        part = getattr(message, field.name)
        part.SetInParent()
        if others:
            _copy(part, draw.choice(others))


def _change_many(
    message: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random
) -> None:
    values = getattr(message, field.name)
    draw.choice((_drop, _drop, _copy_within, _swap, _fill, _fill, _clear))(values, field, found, draw)


def _drop(values: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random) -> None:
    if len(values):
        del values[draw.randrange(len(values))]


def _clear(values: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random) -> None:
    if draw.random() < 0.3:
        del values[:]


def _swap(values: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random) -> None:
    if len(values) > 1:
        items = list(values)
        first, second = draw.sample(range(len(items)), 2)
        items[first], items[second] = items[second], items[first]
        if field.message_type is not None:
            items = [_copied(item) for item in items]
        del values[:]
        values.extend(items)


def _copy_within(
    values: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random
) -> None:
    if len(values) and len(values) < 1000:
        item = values[draw.randrange(len(values))]
        values.append(item if field.message_type is None else _copied(item))


def _fill(values: Any, field: FieldDescriptor, found: dict[str, list[Any]], draw: random.Random) -> None:
    """Changes or adds an element."""
    if field.message_type is not None:
        others = found.get(field.message_type.name)
        if others and len(values) < 1000:
            values.append(_copied(draw.choice(others)))
    elif len(values) and draw.random() < 0.7:
        place = draw.randrange(len(values))
        values[place] = _value(field, values[place], found, draw)
    else:
        values.append(_value(field, values[0] if len(values) else _NONE.get(field.cpp_type, 0), found, draw))


def _copied(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _copy(part: Any, other: Any) -> None:
    """Replaces a part by another of at most 256 KiB, copied first so that it may contain the part."""
    if len(other.SerializePartialToString()) < 1 << 18:
        part.CopyFrom(_copied(other))


def _value(field: FieldDescriptor, old: Any, found: dict[str, list[Any]], draw: random.Random) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        return _bytes(old, draw) if field.type == field.TYPE_BYTES else _text(old, found, draw)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return draw.choice((*_FLOATS, old * 2, -old))
    if kind == field.CPPTYPE_ENUM:
        return draw.choice([value.number for value in field.enum_type.values])
    return _integer(kind, int(old), draw)


def _integer(kind: int, old: int, draw: random.Random) -> int:
    value: int = draw.choice((*_INTEGERS, old + 1, old - 1, -old, old * 2, draw.choice(_LARGE)))
    if kind in _UNSIGNED:
        return value % (1 << _UNSIGNED[kind])
    half = 1 << (_WHOLE.get(kind, 32) - 1)
    return (value + half) % (2 * half) - half


def _bytes(old: bytes | str, draw: random.Random) -> bytes:
    data = old.encode() if isinstance(old, str) else bytes(old)
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: data[:-1],
        lambda: data + b"\0",
        lambda: data * 2,
        lambda: b"",
        lambda: draw.randbytes(len(data)),
        lambda: b"\xff" * len(data),
        lambda: draw.choice(_TEXTS).encode(),
        lambda: b"\x80abc",
    )
    return draw.choice(changes)()


def _text(old: str, found: dict[str, list[Any]], draw: random.Random) -> str:
    if draw.random() < 0.3:
        return draw.choice(_TEXTS)
    names = sorted(set(_names(found)))
    return draw.choice(names) if names and draw.random() < 0.8 else str(old) + "x"


def _names(found: dict[str, list[Any]]) -> Iterator[str]:
    for node in found.get("NodeProto", ()):
        yield from node.input
        yield from node.output
        yield from (node.op_type, node.domain, node.name)
    for kind in ("AttributeProto", "TensorProto", "ValueInfoProto", "FunctionProto"):
        yield from (message.name for message in found.get(kind, ()))
