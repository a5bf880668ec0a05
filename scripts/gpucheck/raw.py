"""Run a plugin with numpy arrays in device memory exactly as large as its tensors, neither filled nor fenced."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from converter.plugin.device_tensors import run_raw
from converter.plugin.host import Plugin
from converter.plugin.native import Native
from converter.plugin.values import TensorDesc, describe_arrays, numpy_dtype


@dataclass
class ExactMemory:
    """Device memory for numpy arrays, each tensor in an allocation of exactly its size.

    missing: bytes by which later allocations are too small; skip_copies: inputs are allocated but not written. Both
    plant faults that a memory checker must find.
    """

    native: Native
    missing: int = 0
    skip_copies: bool = False
    _addresses: list[int] = field(default_factory=list)

    def allocate(self, size: int) -> int:
        pointer = ctypes.c_void_p()
        self.native.call(
            "device_alloc", max(size - self.missing, 0), ctypes.byref(pointer), where="device memory"
        )
        self._addresses.append(pointer.value or 0)
        return pointer.value or 0

    def run(self, plugin: Plugin, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs of one run. All memory is freed."""
        try:
            inputs = [
                (desc, self._input(np.ascontiguousarray(array)))
                for desc, array in zip(describe_arrays(arrays), arrays, strict=True)
            ]
            return [self._read(desc, address) for desc, address in run_raw(plugin, inputs, self.allocate)]
        finally:
            for address in self._addresses:
                if address:
                    self.native.call("device_free", ctypes.c_void_p(address), where="device memory")
            self._addresses.clear()

    def _input(self, array: np.ndarray) -> int:
        missing, self.missing = self.missing, 0
        address = self.allocate(array.nbytes)
        self.missing = missing
        if array.nbytes and not self.skip_copies:
            self.native.call(
                "device_copy_in",
                ctypes.c_void_p(address),
                ctypes.c_void_p(array.ctypes.data),
                array.nbytes,
                where="device memory",
            )
        return address

    def _read(self, desc: TensorDesc, address: int) -> np.ndarray:
        array = np.zeros(desc.shape, numpy_dtype(desc.dtype))
        size = max(array.nbytes - self.missing, 0)
        if size:
            self.native.call(
                "device_copy_out",
                ctypes.c_void_p(array.ctypes.data),
                ctypes.c_void_p(address),
                size,
                where="device memory",
            )
        return array
