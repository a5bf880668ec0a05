"""Holds a session's outputs: buffers of known size, and growing buffers for data-dependent shapes."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

from trtsmith.converter.engine.builder.flavour import Flavour
from trtsmith.converter.engine.runtime.device import Device, DeviceError, Memory, Stream
from trtsmith.converter.engine.runtime.device_tensor import DeviceTensor
from trtsmith.converter.engine.runtime.tensors import TensorSpec


class Output:
    """One output: its memory, which only grows, and the tensor that the last run wrote."""

    def __init__(self, spec: TensorSpec, device: Device, stream: Stream) -> None:
        self.spec = spec
        self.dtype = np.dtype(spec.dtype)
        self.memory: Memory | None = None
        self.allocator: Any = None
        self._device = device
        self._stream = stream

    def tensor(self, shape: tuple[int, ...]) -> DeviceTensor:
        memory = self.reserve(prod(shape) * self.dtype.itemsize)
        return DeviceTensor(self._device, self._stream, memory, shape, self.dtype)

    def reserve(self, size: int) -> Memory:
        """Returns memory for `size` bytes: the present block if it is large enough, else at least one twice as large.

        A tensor of the last run keeps the old block for as long as it is used.
        """
        if self.memory is None or self.memory.size < size:
            wanted = max(size, 2 * self.memory.size if self.memory is not None else 0)
            allocate = self._device.allocate_host if self.spec.is_shape_tensor else self._device.allocate
            try:
                self.memory = allocate(wanted)
            except DeviceError:
                if wanted == size:
                    raise
                self.memory = allocate(size)
        return self.memory


def make_allocator(flavour: Flavour, output: Output) -> Any:
    """Makes the IOutputAllocator that gives TensorRT an output's memory while the engine runs.

    shape: of the last run. error: what CUDA said when there was no memory; TensorRT's run fails then.
    """
    trt: Any = flavour.module

    class Allocator(trt.IOutputAllocator):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shape: tuple[int, ...] = ()
            self.error: DeviceError | None = None

        def reallocate_output_async(
            self, tensor_name: str, memory: object, size: int, alignment: int, stream: object
        ) -> int:
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def reallocate_output(self, tensor_name: str, memory: object, size: int, alignment: int) -> int:
            del tensor_name, memory, alignment  # CUDA aligns memory more than TensorRT asks for
            try:
                return output.reserve(size).pointer
            except DeviceError as error:
                self.error = error
                return 0

        def notify_shape(self, tensor_name: str, shape: Iterable[int]) -> None:
            del tensor_name
            self.shape = tuple(shape)

    return Allocator()
