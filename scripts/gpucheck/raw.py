"""Runs a plugin on numpy arrays in device memory of exactly their size, neither filled nor fenced."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trtsmith.converter.plugin.host.enqueue import run_raw, written_shape
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import Native
from trtsmith.converter.plugin.host.plugin_values import TensorDesc, array_dtype, describe_arrays


@dataclass
class ExactMemory:
    """Device memory for numpy arrays, each in an allocation of exactly its size.

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
        """The outputs of one run. Frees all memory."""
        try:
            inputs = [
                (desc, self._input(np.ascontiguousarray(array)))
                for desc, array in zip(describe_arrays(arrays), arrays, strict=True)
            ]
            return self._results(plugin, run_raw(plugin, inputs, self.allocate), [desc for desc, _ in inputs])
        finally:
            for address in self._addresses:
                if address:
                    self.native.call("device_free", ctypes.c_void_p(address), where="device memory")
            self._addresses.clear()

    def _results(
        self, plugin: Plugin, outputs: Sequence[tuple[TensorDesc, int]], inputs: Sequence[TensorDesc]
    ) -> list[np.ndarray]:
        """The outputs, cut to the sizes that the run wrote."""
        rules = plugin.output_shapes([desc.shape for desc in inputs])
        sizes = [[dim.size_output for dim in rule] for rule in rules]
        holders = {index for rule in sizes for index in rule if index is not None}
        held = [
            self._read(desc, address) if index in holders else np.zeros(0)
            for index, (desc, address) in enumerate(outputs)
        ]
        return [
            self._read(replace(desc, shape=written_shape(desc.shape, rule, held, plugin.where)), address)
            for (desc, address), rule in zip(outputs, sizes, strict=True)
        ]

    def _input(self, array: np.ndarray) -> int:
        missing, self.missing = self.missing, 0
        address = self.allocate(array.nbytes)
        self.missing = missing
        if array.nbytes and not self.skip_copies:
            self._copy("device_copy_in", address, array.ctypes.data, array.nbytes)
        return address

    def _read(self, desc: TensorDesc, address: int) -> np.ndarray:
        array = np.zeros(desc.shape, array_dtype(desc.dtype))
        size = max(array.nbytes - self.missing, 0)
        if size:
            self._copy("device_copy_out", array.ctypes.data, address, size)
        return array

    def _copy(self, function: str, target: int, source: int, size: int) -> None:
        places = ctypes.c_void_p(target), ctypes.c_void_p(source)
        self.native.call(function, *places, size, where="device memory")
