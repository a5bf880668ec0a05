"""Lays out plugin fields in C memory, and overwrites them after the call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.plugin_values import EncodedField

ALIGNMENT = 16
OVERWRITTEN = 0xFF


class CMemory:
    """Bytes that a plugin is given for one call, each run of them with a NUL behind.

    unaligned: every run starts at an odd address; otherwise at a multiple of ALIGNMENT.
    """

    def __init__(self, *, unaligned: bool = False) -> None:
        self._offset = 1 if unaligned else 0
        self._buffers: list[ctypes.Array[ctypes.c_char]] = []
        self._runs: list[tuple[int, int]] = []

    def put(self, data: bytes) -> int:
        """Copies the bytes; their address, which is valid while this object lives."""
        buffer = ctypes.create_string_buffer(ALIGNMENT + self._offset + len(data) + 1)
        start = ctypes.addressof(buffer)
        address = start + -start % ALIGNMENT + self._offset
        ctypes.memmove(address, data, len(data))
        self._buffers.append(buffer)
        self._runs.append((address, len(data)))
        return address

    def overwrite(self) -> None:
        """What TensorRT's memory may hold as soon as the call has returned. The closing NULs stay."""
        for address, size in self._runs:
            ctypes.memset(address, OVERWRITTEN, size)


class FieldMemory(CMemory):
    """Names and data of fields. `array` is valid while this object lives."""

    def __init__(self, fields: Sequence[EncodedField], *, unaligned: bool = False) -> None:
        super().__init__(unaligned=unaligned)
        self.array = (abi.CField * max(len(fields), 1))()
        for item, field in zip(self.array, fields, strict=False):
            item.name = self.put(field.name.encode())
            item.data = self.put(field.data) if field.data else None
            item.type = abi.FIELD_TYPES.index(field.type)
            item.length = field.length
