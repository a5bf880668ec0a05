"""Changes the bytes of a model file, as a bad disk, a broken download or an attacker would."""

from __future__ import annotations

import random
from collections.abc import Callable

_VALUES = (0, 1, 0x7F, 0x80, 0xFF, 0x08, 0x12, 0x0A)
"""Ends of ranges, the longest varint's bytes, and tags that protobuf files are full of."""


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """Applies one to eight changes to the bytes."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        if not result:
            break
        draw.choice(_CHANGES)(result, draw)
    return bytes(result)


def _span(data: bytearray, draw: random.Random, most: int = 64) -> slice:
    start = draw.randrange(len(data))
    return slice(start, min(len(data), start + draw.randint(1, most)))


def _flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] = draw.choice(_VALUES)


def _add(data: bytearray, draw: random.Random) -> None:
    place = draw.randrange(len(data))
    data[place] = (data[place] + draw.randint(-3, 3)) % 256


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[_span(data, draw)]


def _end(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _repeat(data: bytearray, draw: random.Random) -> None:
    part = data[_span(data, draw)]
    place = draw.randrange(len(data))
    data[place:place] = part * draw.choice((1, 1, 2, 16))


def _overwrite(data: bytearray, draw: random.Random) -> None:
    span, place = _span(data, draw), draw.randrange(len(data))
    part = data[span]
    data[place : place + len(part)] = part


def _random(data: bytearray, draw: random.Random) -> None:
    span = _span(data, draw, 16)
    data[span] = draw.randbytes(span.stop - span.start)


_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _set,
    _add,
    _cut,
    _end,
    _repeat,
    _overwrite,
    _random,
)
