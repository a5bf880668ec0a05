"""Recognises arrays of other libraries, on the GPU or on the host: their memory and their stream.

Any array is taken by DLPack or `__cuda_array_interface__`. That costs some microseconds, mostly in the other library.
Of PyTorch and CuPy the same is known faster, so that an array that is where the last one was costs next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from trtsmith.converter.engine.runtime.device import Device, Stream


@dataclass(frozen=True)
class ForeignArray:
    """An array of another library. dtype as numpy and ml_dtypes name it; pointer is 0 for an empty one."""

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    on_device: bool
    device_index: int
    contiguous: bool


@dataclass(frozen=True)
class Library:
    """The facts about one library that are known without asking DLPack.

    fingerprint: of an array; two that are equal have the same address, shape, dtype and order of elements.
    stream:      the handle of the stream on which the library works at the moment, on a device.
    dtype:       of an array, by name.
    """

    fingerprint: Callable[[Any], tuple[Any, ...]]
    stream: Callable[[int], int]
    dtype: Callable[[Any], str]


def library_of(value: object) -> Library | None:
    """Returns PyTorch or CuPy, which are imported already if a value is theirs; None for any other."""
    root = type(value).__module__.partition(".")[0]
    if root not in ("torch", "cupy"):
        return None
    module: Any = sys.modules[root]
    if root == "torch":
        return _torch(module) if isinstance(value, module.Tensor) else None
    return _cupy(module) if isinstance(value, module.ndarray) else None


def _torch(torch: Any) -> Library:
    # What PyTorch's own generated code asks; the public way builds two Python objects for each question.
    fast = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return Library(
        lambda tensor: (tensor.data_ptr(), tensor.shape, tensor.dtype, tensor.is_contiguous()),
        fast or (lambda index: int(torch.cuda.current_stream(index).cuda_stream)),
        lambda tensor: str(tensor.dtype).removeprefix("torch."),
    )


def _cupy(cupy: Any) -> Library:
    return Library(
        lambda array: (array.data.ptr, array.shape, array.strides, array.dtype),
        lambda index: int(cupy.cuda.get_current_stream().ptr),
        lambda array: str(array.dtype),
    )


def import_array(device: Device, value: object, stream: Stream | None) -> ForeignArray:
    """Reads an array's address by DLPack or `__cuda_array_interface__`. stream: waits for the array's producer; None if the
    caller sees to that.

    Raises TypeError for what is no array, with the reason.
    """
    try:
        view = device.view(value, stream)
        library = library_of(value)
        dtype = library.dtype(value) if library else str(view.dtype)
        shape = tuple(int(size) for size in view.shape)
        contiguous = view.strides is None or _is_contiguous(shape, view.strides)
        return ForeignArray(
            int(view.ptr), shape, dtype, bool(view.is_device_accessible), int(view.device_id), contiguous
        )
    except Exception as error:  # of the other library, or of cuda-core: whatever they find wrong
        raise TypeError(f"{type(value).__module__}.{type(value).__name__}: {error}") from error


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements follow each other in C order. Strides of axes of one element say nothing."""
    if prod(shape) == 0:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def stream_handle(stream: object) -> int:
    """Returns cudaStream_t of a stream of any library, as an integer. Raises TypeError for anything else."""
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr", "handle"):  # PyTorch, CuPy, others
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise TypeError(
        f"{stream!r} is not a CUDA stream: give an integer, or a stream of cuda-core, PyTorch or CuPy"
    )
