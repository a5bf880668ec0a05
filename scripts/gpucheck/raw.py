"""Run a plugin on device memory that the caller owns: exactly as large as its tensors, neither filled nor fenced."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from converter.plugin import abi
from converter.plugin.host import Plugin
from converter.plugin.native import Native
from converter.plugin.values import TensorDesc, describe_arrays, numpy_dtype

Allocate = Callable[[int], int]
"""Device memory of so many bytes; its address."""


def run_raw(
    plugin: Plugin, inputs: Sequence[tuple[TensorDesc, int]], allocate: Allocate
) -> list[tuple[TensorDesc, int]]:
    """Enqueue once and wait. inputs: description and address of each; returns the same of the outputs.

    Raises PluginError for a failing call and for a fault of the kernel.
    """
    in_descs = [desc for desc, _ in inputs]
    types = plugin.output_types([desc.dtype for desc in in_descs])
    shapes = plugin.concrete_shapes([desc.shape for desc in in_descs])
    out_descs = [TensorDesc(dtype, shape) for dtype, shape in zip(types, shapes, strict=True)]
    with ExitStack() as stack:
        configured = stack.enter_context(plugin.clone())
        configured.configure(in_descs, out_descs)
        workspace = allocate(configured.workspace_size(in_descs, out_descs))
        configured.initialize()
        context = stack.enter_context(configured.attach())
        context.on_shape_change(in_descs, out_descs)
        outputs = [(desc, allocate(size_of(desc))) for desc in out_descs]
        stream = ctypes.c_void_p()
        plugin.native.call("stream_create", ctypes.byref(stream), where=plugin.where)
        stack.callback(lambda: plugin.native.call("stream_destroy", stream, where=plugin.where))
        ins = (ctypes.c_void_p * max(len(inputs), 1))(*(address or None for _, address in inputs))
        outs = (ctypes.c_void_p * max(len(outputs), 1))(*(address or None for _, address in outputs))
        buffers = abi.CBuffers(ins, outs, ctypes.c_void_p(workspace or None), stream)
        io = context.io(in_descs, out_descs)
        context.call("plugin_enqueue", ctypes.byref(io.c), ctypes.byref(buffers))
    return outputs


def size_of(desc: TensorDesc) -> int:
    """Bytes."""
    return math.prod(desc.shape) * numpy_dtype(desc.dtype).itemsize


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
