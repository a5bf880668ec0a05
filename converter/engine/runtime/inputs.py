"""Binds a session's inputs: turns arrays of any library into addresses, without a copy if possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

from trtsmith.converter.base.arrays import as_declared
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.device import Device, Memory, Stream
from trtsmith.converter.engine.runtime.device_tensor import DeviceTensor
from trtsmith.converter.engine.runtime.feeds import array_problems, value_problems
from trtsmith.converter.engine.runtime.foreign_arrays import ForeignArray, Library, import_array, library_of
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.converter.rewrite.types import IoType, to_engine

_CPU = 1  # kDLCPU of dlpack.h


class Input:
    """One input: its last array, and the address that TensorRT reads.

    pointer, shape:   as TensorRT has them; for a shape tensor `values` too, in host memory.
    moved, reshaped:  whether TensorRT does not know the address, or the shape or values, yet.
    source:           the array itself, kept until the next one comes: the GPU may still read it.
    fingerprint:      of the array, if it may be taken again unseen: used where it is, its values not read here.
    """

    def __init__(
        self, spec: TensorSpec, profile: int, io_type: IoType | None, device: Device, stream: Stream
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.pointer = 0
        self.shape: tuple[int, ...] | None = None
        self.values: np.ndarray | None = None
        self.moved = self.reshaped = False
        self._profile = profile
        self._io_type = io_type
        self._device = device
        self._stream = stream
        self._memory: Memory | None = None
        self._block: np.ndarray | None = None  # the values of a shape tensor, where TensorRT reads them
        self.source: object = None
        self.fingerprint: tuple[Any, ...] | None = None

    def bind_tensor(self, tensor: DeviceTensor) -> int:
        """Takes one of our tensors, and returns the handle of the stream that writes it."""
        if tensor is not self.source or self.spec.is_shape_tensor:  # whose values may be others now
            self._check(str(tensor.dtype), tensor.shape, self.spec.dtype)
            if self.spec.is_shape_tensor:
                self._take_values(tensor.numpy())
            else:
                self._place(tensor.pointer, tensor.shape)
            self.source, self.fingerprint = tensor, None
        return tensor.stream.handle

    def bind_known(self, value: Any, library: Library) -> bool:
        """Takes an array of PyTorch or CuPy. Tells whether it is on the device, where its library's work may be pending."""
        # the caller waits before the run, which is too late for values that are read here and now
        waits = self._stream if self.spec.is_shape_tensor else None
        if not self._import(import_or_refuse(self.name, self._device, value, waits), value):
            return False
        self.fingerprint = library.fingerprint(value)
        return True

    def bind_other(self, value: object) -> None:
        """Takes an array of any other library, or anything that numpy makes an array of."""
        where = getattr(value, "__dlpack_device__", None)
        if hasattr(value, "__cuda_array_interface__") or (where is not None and where()[0] != _CPU):
            self._import(import_or_refuse(self.name, self._device, value, self._stream), value)
        else:
            self.bind_host(np.asarray(value))

    def bind_host(self, value: np.ndarray) -> None:
        """Takes a host array, of the model's type or the engine's, and copies it to the session's memory."""
        array = as_declared(value, self.spec.dtype)
        io = self._io_type
        if io is not None and str(array.dtype) != self.spec.dtype:
            self._check(str(array.dtype), array.shape, io.before)
            array = to_engine({self.name: array}, (io,))[self.name]
        array = np.ascontiguousarray(array).reshape(array.shape)
        self._check(str(array.dtype), array.shape, self.spec.dtype)
        # First: what was here before is not, should the copy fail.
        self.source, self.fingerprint = array, None
        if self.spec.is_shape_tensor:
            self._take_values(array)
        else:
            self._place(self._reserve(array.nbytes), array.shape)
            self._device.upload(self.pointer, array, self._stream)

    def _import(self, array: ForeignArray, value: object) -> bool:
        """Take an array of another library; whether it is on the device."""
        dtype = (
            "uint8" if self.spec.dtype.startswith("float8") and array.dtype == "uint8" else self.spec.dtype
        )
        self._check(array.dtype, array.shape, dtype)
        if not array.contiguous:
            raise UsageError(
                f"The array of the input {self.name!r} is not contiguous: its elements do not follow each other.",
                f"input {self.name!r}",
                "elements in C order without gaps: trtsmith never copies them silently",
                "tensor.contiguous() of PyTorch, cupy.ascontiguousarray",
            )
        if array.on_device and array.device_index not in (-1, self._device.index):
            raise UsageError(
                f"The array of the input {self.name!r} is on the GPU {array.device_index}.",
                f"input {self.name!r}",
                f"the GPU {self._device.index}, on which the engine is",
                "copy the array there, or open the engine with device=" + str(array.device_index),
            )
        size = int(np.prod(array.shape, dtype=np.int64)) * np.dtype(self.spec.dtype).itemsize
        self.source, self.fingerprint = value, None
        if self.spec.is_shape_tensor:
            host = np.empty(array.shape, self.spec.dtype)
            if array.on_device:
                self._device.download(host, array.pointer, self._stream)
            else:
                host[...] = np.from_dlpack(value)  # type: ignore[arg-type]
            self._take_values(host)
            return False
        if array.on_device and array.pointer:
            self._place(array.pointer, array.shape)
            return True
        self._place(self._reserve(size), array.shape)
        if not array.on_device:
            self._device.upload_from(self.pointer, array.pointer, size, self._stream)
        return False

    def _check(self, dtype: str, shape: tuple[int, ...], wanted: str) -> None:
        """UsageError for a type or shape that does not fit. A shape that was right is not looked at again."""
        if dtype == wanted and shape == self.shape:
            return
        model_dtype = wanted if wanted != self.spec.dtype else None
        if self._io_type is not None and dtype != wanted:
            model_dtype = self._io_type.before
        problems = array_problems(self.spec, dtype, shape, self._profile, model_dtype)
        if problems:
            raise UsageError(problems)

    def _take_values(self, values: np.ndarray) -> None:
        """A shape tensor: a host array of our own, which does not change while TensorRT may read it."""
        if self.values is not None and self.shape == values.shape and np.array_equal(self.values, values):
            return
        problems = value_problems(self.spec, values, self._profile)
        if problems:
            raise UsageError(problems)
        block = np.zeros(max(values.size, 1), values.dtype)  # TensorRT wants an address for an empty one, too
        block[: values.size] = values.reshape(-1)
        self.values, self._block = values.copy(), block
        self.pointer, self.shape = block.ctypes.data, values.shape
        self.moved = self.reshaped = True

    def _place(self, pointer: int, shape: tuple[int, ...]) -> None:
        if pointer != self.pointer:
            self.pointer, self.moved = pointer, True
        if shape != self.shape:
            self.shape, self.reshaped = shape, True

    def _reserve(self, size: int) -> int:
        if self._memory is None or self._memory.size < size:
            self._memory = self._device.allocate(size)
        return self._memory.pointer


def import_or_refuse(name: str, device: Device, value: object, stream: Stream | None) -> ForeignArray:
    """Imports an array by `import_array`. Raises UsageError for anything else."""
    try:
        return import_array(device, value, stream)
    except TypeError as error:
        raise UsageError(
            f"The value of the input {name!r} cannot be used: {error}",
            f"input {name!r}",
            "an array of numpy, PyTorch, CuPy, or any with DLPack or __cuda_array_interface__",
            "detach a tensor that requires a gradient, and give a dense one",
        ) from error


class Binder:
    """Binds arrays to a session's inputs, and makes the session's stream wait for their producers."""

    def __init__(self, inputs: tuple[Input, ...], device: Device, stream: Stream) -> None:
        self._inputs = inputs
        self._device = device
        self._stream = stream
        self._wait_for = device.waiter(stream)
        self._libraries: dict[type, Library] = {}

    def bind(self, feeds: Mapping[str, Any]) -> bool:
        """Tells whether anything changed that TensorRT has to know. feeds: an array for each input.

        The loop's first branch is what an inference costs on arrays that are where they were: no call but the library's.
        """
        changed = False
        waited = own = self._stream.handle
        asked: Library | None = None  # whose stream was asked for last: a question takes a microsecond
        libraries = self._libraries
        for item in self._inputs:
            value = feeds[item.name]
            library = libraries.get(type(value))
            try:
                known = library is not None and library.fingerprint(value) == item.fingerprint
            except RuntimeError:  # PyTorch's, for a tensor that is not dense: refused below, with the reason
                known = False
            if known:
                item.source = value
                if library is asked:
                    continue
                producer: int | None = None
            else:
                library, producer = self._bind_new(item, value, library)
                changed = changed or item.moved or item.reshaped
            if library is not None:
                asked, producer = library, library.stream(self._device.index)
            if producer is not None and producer != waited and producer != own:
                self._wait_for(producer)
                waited = producer  # one wait is enough for all that a stream has made so far
        return changed

    def _bind_new(
        self, item: Input, value: Any, library: Library | None
    ) -> tuple[Library | None, int | None]:
        """Give an input what it did not have before. The library whose stream has to be waited for, or the stream."""
        kind = type(value)
        if kind is DeviceTensor:
            return None, item.bind_tensor(value)
        if kind is np.ndarray:
            item.bind_host(value)
            return None, None
        if library is None:
            library = library_of(value)
            if library is None:
                item.bind_other(value)
                return None, None
            self._libraries[kind] = library
        return library if item.bind_known(value, library) else None, None
