"""Allocates device memory for tensors and workspace, filled with poison and followed by guard bytes.

Outputs and workspace hold 0xFF bytes before the kernel runs (NaN in every floating type), so that what it forgets to
write and what it reads too early shows; behind each lies a guard zone that it must not touch.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host_library import Native, PluginError

GUARD = 256
POISON = 0xFF
FENCE = 0xA5


@dataclass(frozen=True)
class MemoryLayout:
    """Addresses of tensors and workspace, and the fill of outputs and workspace before a run.

    fill:          a byte; None leaves memory as it was allocated, so that a memory checker can tell what was never
                   written.
    offset:        bytes from the start of an allocation to a tensor or the workspace; a multiple of 256, the alignment
                   that IExecutionContext::setTensorAddress asks for. Nothing smaller is documented.
    empty:         the address of tensors without elements: "own", one for each; "null"; "same", one for all of them.
    shared_inputs: equal inputs lie at one address.
    """

    fill: int | None = POISON
    offset: int = 0
    empty: str = "own"
    shared_inputs: bool = False


DEFAULT_LAYOUT = MemoryLayout()


class DeviceBuffer:
    """Device memory with a fence behind it. null: no memory, and the null address."""

    def __init__(
        self, native: Native, size: int, what: str, where: str, layout: MemoryLayout, *, null: bool = False
    ) -> None:
        self._native = native
        self.size = size
        self._what = what
        self._where = where
        self.null = null
        self._fill = layout.fill
        self._start = ctypes.c_void_p()
        self.pointer = ctypes.c_void_p()
        if null:
            return
        native.call(
            "device_alloc", layout.offset + size + GUARD, ctypes.byref(self._start), where=f"{where}, {what}"
        )
        self.pointer = ctypes.c_void_p((self._start.value or 0) + layout.offset)
        self.poison()
        self.fill(size, GUARD, FENCE)

    def poison(self) -> None:
        """Makes the memory as it was before the first run."""
        if self.size and self._fill is not None:
            self.fill(0, self.size, self._fill)

    def _at(self, offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p((self.pointer.value or 0) + offset)

    def fill(self, offset: int, size: int, byte: int) -> None:
        self._native.call("device_fill", self._at(offset), byte, size, where=f"{self._where}, {self._what}")

    def write(self, array: np.ndarray) -> None:
        if array.nbytes:
            data = np.ascontiguousarray(array)
            self._native.call(
                "device_copy_in",
                self.pointer,
                data.ctypes.data,
                data.nbytes,
                where=f"{self._where}, {self._what}",
            )

    def read(self, offset: int, size: int) -> bytes:
        host = ctypes.create_string_buffer(max(size, 1))
        if size:
            self._native.call(
                "device_copy_out", host, self._at(offset), size, where=f"{self._where}, {self._what}"
            )
        return host.raw[:size]

    def check_fence(self) -> None:
        if self.null:
            return
        fence = self.read(self.size, GUARD)
        touched = [i for i, byte in enumerate(fence) if byte != FENCE]
        if touched:
            raise PluginError(
                abi.Status.BROKEN,
                f"the kernel wrote {len(touched)} bytes behind {self._what}, the first {touched[0]} bytes after "
                f"its end of {self.size} bytes",
                self._where,
            )

    def free(self) -> None:
        if not self.null:
            self._native.call("device_free", self._start, where=self._where)
