"""Manages one GPU through NVIDIA's cuda-bindings and cuda-core, which nothing else imports: memory, streams and graphs.

Everything is asked for by plain integers (addresses, stream handles), which TensorRT takes as well. A call that CUDA
refuses is a DeviceError with CUDA's own name of the error.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.importers.problem import Problem

PACKAGES = "pip install 'cuda-core>=1.0,<2' 'cuda-bindings>=12.9,<14' (trtsmith's extra: gpu)"

_THREADS = threading.local()
"""index: of the device whose context a thread was given last."""

_LEGACY_STREAM = 1  # CU_STREAM_LEGACY: the stream that a handle of 0 means, too

_SMALLEST = 256  # bytes: also an empty tensor has an address of its own, as TensorRT demands


class DeviceError(Exception):
    """CUDA refused a call. code: such as "CUDA_ERROR_OUT_OF_MEMORY"."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Memory:
    """A block of device memory, freed with its last reference."""

    def __init__(self, device: Device, pointer: int, size: int, free: Callable[[int], Any]) -> None:
        self.pointer = pointer
        self.size = size
        self._device = device
        self._free = free

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process CUDA may be gone already
            self._device.free(self._free, self.pointer)


def pinned_array(device: Device, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Makes an array in page-locked memory, which lives as long as the array or a view of it."""
    element = np.dtype(dtype)
    size = prod(shape) * element.itemsize
    memory = device.allocate_host(size)
    block = (ctypes.c_uint8 * size).from_address(memory.pointer)
    block.memory = memory  # numpy keeps the block, and the block the memory
    return np.frombuffer(block, element).reshape(tuple(shape))


class Stream:
    """A queue of work on the GPU. handle: cudaStream_t as an integer. A stream of another library is only borrowed."""

    def __init__(self, device: Device, handle: int, owner: object = None) -> None:
        self.handle = handle
        self.raw, self.event = device.stream_objects(handle)
        self._device = device
        self._owner = owner  # a foreign stream lives as long as the object that it came from

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._device.close_stream(self, own=self._owner is None)


class Device:
    """A GPU of this process, with its primary context, which PyTorch and CuPy use as well.

    Raises UsageError where there is no GPU, or no cuda-core.
    """

    def __init__(self, index: int = 0) -> None:
        driver, core, views = _import()
        if find_gpu() is None:
            raise UsageError(no_gpu())
        self._driver = driver
        self._views = views
        self._core = core
        try:
            device = core.Device(index)
            device.set_current()
            self.name = str(device.name)
            major, minor = device.compute_capability
        except Exception as error:  # cuda-core has no public class for what CUDA refuses
            raise UsageError(
                f"The GPU {index} cannot be used: {error}",
                f"GPU {index} of this machine",
                "a GPU that this process may use",
                "nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES chooses among them",
            ) from error
        self.index = index
        self.compute_capability = f"{major}.{minor}"
        self._context = self._check(driver.cuCtxGetCurrent())
        self.threads = _THREADS
        self.threads.index = index

    def make_current(self) -> None:
        """Makes this device's context current in the calling thread; CUDA's calls below go to the current one."""
        if getattr(self.threads, "index", None) != self.index:
            # By cuda-core, which counts the threads in which it may be used, and does not see the driver's own call.
            self._core.Device(self.index).set_current()
            self.threads.index = self.index

    def allocate(self, size: int) -> Memory:
        """Allocates memory aligned for every type, with cuMemAlloc: freeing it waits for pending readers, in this library or
        another, which memory of a stream-ordered pool does not.
        """
        driver = self._driver
        size = max(size, _SMALLEST)
        return Memory(self, int(self._check(driver.cuMemAlloc(size))), size, driver.cuMemFree)

    def allocate_host(self, size: int) -> Memory:
        """Allocates host memory that the GPU can reach at the same address."""
        driver = self._driver
        size = max(size, _SMALLEST)
        return Memory(self, int(self._check(driver.cuMemAllocHost(size))), size, driver.cuMemFreeHost)

    def free(self, call: Callable[[int], Any], pointer: int) -> None:
        """Frees memory from whatever thread the garbage collector runs in."""
        self._driver.cuCtxPushCurrent(self._context)
        try:
            call(pointer)
        finally:
            self._driver.cuCtxPopCurrent()

    def create_stream(self) -> Stream:
        """Creates a stream that neither waits for the legacy default stream nor makes it wait."""
        flag = self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return Stream(self, int(self._check(self._driver.cuStreamCreate(int(flag)))))

    def borrow_stream(self, handle: int, owner: object) -> Stream:
        """Wraps another library's stream. owner: keeps it alive."""
        return Stream(self, handle, owner)

    def stream_objects(self, handle: int) -> tuple[Any, Any]:
        """Returns (the stream as cuda-bindings has it, an event for `wait`)."""
        flag = self._driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        return self._driver.CUstream(handle), self._check(self._driver.cuEventCreate(int(flag)))

    def close_stream(self, stream: Stream, *, own: bool) -> None:
        self._driver.cuEventDestroy(stream.event)
        if own:
            self._driver.cuStreamDestroy(stream.raw)

    def synchronise(self, stream: Stream) -> None:
        """Waits until all work of a stream is done. Raises the error of a kernel that failed."""
        self._check(self._driver.cuStreamSynchronize(stream.raw))

    def waiter(self, stream: Stream) -> Callable[[int], None]:
        """Makes a function that lets `stream` wait for the work queued so far on another one, given by its handle.

        It is within every inference on arrays of another stream: by cuda-core, whose calls cost less than those of
        cuda-bindings, and with one object for a stream that is waited for again.
        """
        find, event = self._core.Stream.from_handle, self._core.Device(self.index).create_event()
        wait = find(stream.handle).wait
        last, record = None, wait

        def wait_for(handle: int) -> None:
            nonlocal last, record
            try:
                if handle != last:
                    record, last = find(handle or _LEGACY_STREAM).record, handle
                record(event)
                wait(event)
            except Exception as error:  # cuda-core has no public class for it; CUDA's name of it is first
                code, _, text = str(error).partition(": ")
                raise DeviceError(code, text) from error

        return wait_for

    def let_wait(self, consumer: int, stream: Stream) -> None:
        """Lets another stream wait for the work queued on `stream` so far."""
        if consumer != stream.handle:
            self._check(self._driver.cuEventRecord(stream.event, stream.raw))
            self._check(self._driver.cuStreamWaitEvent(consumer, stream.event, 0))

    def create_event(self) -> Any:
        """Creates an event that keeps the time at which the GPU passes it. It lives as long as the process."""
        return self._check(self._driver.cuEventCreate(int(self._driver.CUevent_flags.CU_EVENT_DEFAULT)))

    def record(self, event: Any, stream: int) -> None:
        """Lets the GPU pass the event when it has done the work queued on the stream (a handle) so far."""
        self._check(self._driver.cuEventRecord(event, stream))

    def wait_for(self, event: Any) -> None:
        """Waits until the GPU has passed the event. Raises the error of a kernel that failed before."""
        self._check(self._driver.cuEventSynchronize(event))

    def elapsed_ms(self, before: Any, after: Any) -> float:
        """Returns milliseconds between two events that the GPU has passed."""
        return float(self._check(self._driver.cuEventElapsedTime(before, after)))

    def copy_in(self, pointer: int, source: int, size: int, stream: int) -> None:
        """Queues a copy of host memory at an address to device memory, on a stream (a handle)."""
        self._check(self._driver.cuMemcpyHtoDAsync(pointer, source, size, stream))

    def copy_out(self, target: int, pointer: int, size: int, stream: int) -> None:
        """Queues a copy of device memory to host memory at an address, on a stream (a handle)."""
        self._check(self._driver.cuMemcpyDtoHAsync(target, pointer, size, stream))

    def upload(self, pointer: int, array: np.ndarray, stream: Stream) -> None:
        """Copies a C-contiguous host array to device memory. The array must not change before the stream is done."""
        if array.nbytes:
            self._check(self._driver.cuMemcpyHtoDAsync(pointer, array.ctypes.data, array.nbytes, stream.raw))

    def upload_from(self, pointer: int, source: int, size: int, stream: Stream) -> None:
        """Copies `size` bytes of host memory at an address."""
        if size:
            self._check(self._driver.cuMemcpyHtoDAsync(pointer, source, size, stream.raw))

    def download(self, array: np.ndarray, pointer: int, stream: Stream) -> None:
        """Copies device memory into a C-contiguous host array, and waits for it."""
        if array.nbytes:
            self._check(self._driver.cuMemcpyDtoHAsync(array.ctypes.data, pointer, array.nbytes, stream.raw))
        self.synchronise(stream)

    def begin_capture(self, stream: Stream) -> None:
        """Records the work queued on the stream into a graph, instead of running it."""
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._check(self._driver.cuStreamBeginCapture(stream.raw, mode))

    def end_capture(self, stream: Stream) -> CudaGraph:
        """Returns the graph. Raises DeviceError if something could not be captured; the stream is usable again then."""
        graph = self._check(self._driver.cuStreamEndCapture(stream.raw))
        try:
            return CudaGraph(self, self._check(self._driver.cuGraphInstantiate(graph, 0)))
        finally:
            self._driver.cuGraphDestroy(graph)

    def launch(self, graph: CudaGraph, stream: Stream) -> None:
        self._check(self._driver.cuGraphLaunch(graph.raw, stream.raw))

    def close_graph(self, raw: Any) -> None:
        self._driver.cuGraphExecDestroy(raw)

    def view(self, value: object, stream: Stream | None) -> Any:
        """Views another library's array as cuda-core's StridedMemoryView, by DLPack or __cuda_array_interface__.

        stream waits for the array's producer; None: no waiting. Raises what the library or cuda-core raises for
        what is no array.
        """
        return self._views.from_any_interface(value, -1 if stream is None else stream.handle)

    def view_memory(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Views our memory as a StridedMemoryView, which exports itself by DLPack and keeps the memory alive."""
        buffer = self._core.Buffer.from_handle(memory.pointer, memory.size, owner=memory)
        return self._views.from_buffer(buffer, shape, dtype=dtype)

    def _check(self, answer: tuple[Any, ...]) -> Any:
        """The value of a call of cuda-bindings, which answers (error,) or (error, value)."""
        error = answer[0]
        if error:
            name = self._driver.cuGetErrorName(error)[1]
            text = self._driver.cuGetErrorString(error)[1]
            raise DeviceError(*(part.decode() if part else str(error) for part in (name, text)))
        return answer[1] if len(answer) > 1 else None


class CudaGraph:
    """Captured work, ready to be launched."""

    def __init__(self, device: Device, raw: Any) -> None:
        self.raw = raw
        self._device = device

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._device.close_graph(self.raw)


def no_gpu() -> Problem:
    return Problem(
        "There is no NVIDIA GPU to run the engine.",
        "this machine",
        "a GPU, with a driver that is as new as TensorRT's CUDA",
        "run it on a machine with a GPU; `nvidia-smi` must show it, and CUDA_VISIBLE_DEVICES must not hide it",
    )


def missing_packages() -> Problem | None:
    """Names what keeps this module from working, of the packages that it imports; None if they are all there."""
    try:
        _import()
    except UsageError as error:
        return error.problems[0]
    return None


def _import() -> tuple[Any, Any, Any]:
    """(cuda.bindings.driver, cuda.core, StridedMemoryView). UsageError if they are missing or too old."""
    try:
        driver = importlib.import_module("cuda.bindings.driver")
        core = importlib.import_module("cuda.core")
        views = importlib.import_module("cuda.core.utils").StridedMemoryView
        needed = (core.Device, core.Buffer, core.Stream, views.from_any_interface, views.from_buffer)
        del needed
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"cuda-core is not installed, or too old: {error}",
            "running an engine",
            "cuda-core 1.x and cuda-bindings 12.9 or 13",
            PACKAGES,
        ) from error
    return driver, core, views
