"""A fake TensorRT and GPU, which behave like the real ones where the runner depends on it.

FakeDevice: has the interface of engine.runtime.device.Device. Its memory is numpy's, its addresses are real addresses
of this process, and work is done when it is queued, except that a captured graph does its work when it is launched. An
error of a kernel is sticky: every call after it fails.
FakeTensorRT: the names of the module `tensorrt` that engine/runtime uses. As the real one it answers False or None,
and logs why, where it refuses; it runs only with every shape set and every address known; addresses must not be null; it
reads an address when it runs, not before; a size that the data decide is -1 in get_tensor_shape, and its output goes
through the allocator, which cannot be captured.
"""

from __future__ import annotations

import ctypes
import enum
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes  # noqa: F401
import numpy as np
import pytest

from trtsmith.converter.engine.builder.flavour import Flavour, trt_dtype_name
from trtsmith.converter.engine.runtime.device import DeviceError
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog, ThreadMessages
from trtsmith.converter.rewrite.target import version_of

GUARD = 0xA5  # what fresh memory is full of, so that nothing passes for having been computed


def at(pointer: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The array at an address."""
    size = prod(shape) * np.dtype(dtype).itemsize
    block = (ctypes.c_char * size).from_address(pointer)
    return np.frombuffer(block, np.uint8).view(dtype).reshape(shape)


class FakeMemory:
    def __init__(self, device: FakeDevice, size: int) -> None:
        self.block = np.full(max(size, 256), GUARD, np.uint8)
        self.pointer = self.block.ctypes.data
        self.size = max(size, 256)
        self._device = device
        device.used += self.size
        device.blocks[self.pointer] = self.size

    def __del__(self) -> None:
        self._device.used -= self.size
        del self._device.blocks[self.pointer]


class FakeStream:
    def __init__(self, handle: int) -> None:
        self.handle = handle


class FakeGraph:
    def __init__(self, work: list[Callable[[], None]]) -> None:
        self.work = work


@dataclass
class FakeDevice:
    """capacity: bytes. waits: (who waits, for whom), by stream handles. calls: how often each method was called."""

    capacity: int = 1 << 30
    index: int = 0
    name: str = "Fake GPU"
    compute_capability: str = "9.0"
    used: int = 0
    waits: list[tuple[int, int]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    blocks: dict[int, int] = field(default_factory=dict)
    capturing: dict[int, list[Callable[[], None]] | None] = field(default_factory=dict)
    streams: int = 100
    threads: threading.local = field(default_factory=threading.local)

    def make_current(self) -> None:
        self.calls["make_current"] += getattr(self.threads, "index", None) != self.index
        self.threads.index = self.index

    def check_write(self, pointer: int, size: int) -> None:
        """What is written lies in one block of memory that is not freed."""
        assert any(start <= pointer and pointer + size <= start + room for start, room in self.blocks.items())

    def _check(self, name: str) -> None:
        self.calls[name] += 1
        if self.fault:
            raise DeviceError(self.fault, "said by the fake")

    def allocate(self, size: int) -> FakeMemory:
        self._check("allocate")
        if self.used + size > self.capacity:
            raise DeviceError("CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
        return FakeMemory(self, size)

    allocate_host = allocate

    def create_stream(self) -> FakeStream:
        self.streams += 1
        return FakeStream(self.streams)

    def borrow_stream(self, handle: int, owner: object) -> FakeStream:
        return FakeStream(handle)

    def synchronise(self, stream: FakeStream) -> None:
        self._check("synchronise")

    def waiter(self, stream: FakeStream) -> Callable[[int], None]:
        def wait_for(producer: int) -> None:
            self._check("wait")
            self.waits.append((stream.handle, producer))

        return wait_for

    def let_wait(self, consumer: int, stream: FakeStream) -> None:
        self.waits.append((consumer, stream.handle))

    def upload(self, pointer: int, array: np.ndarray, stream: FakeStream) -> None:
        self._check("upload")
        assert array.flags.c_contiguous
        self.check_write(pointer, array.nbytes)
        at(pointer, (array.nbytes,), np.uint8)[:] = array.reshape(-1).view(np.uint8)

    def upload_from(self, pointer: int, source: int, size: int, stream: FakeStream) -> None:
        self._check("upload")
        if size:
            ctypes.memmove(pointer, source, size)

    def download(self, array: np.ndarray, pointer: int, stream: FakeStream) -> None:
        self._check("download")
        array[...] = at(pointer, array.shape, array.dtype)

    def begin_capture(self, stream: FakeStream) -> None:
        self.capturing[stream.handle] = []

    def end_capture(self, stream: FakeStream) -> FakeGraph:
        work = self.capturing.pop(stream.handle)
        if work is None:
            raise DeviceError("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "said by the fake")
        self.calls["captures"] += 1
        return FakeGraph(work)

    def launch(self, graph: FakeGraph, stream: FakeStream) -> None:
        self._check("launch")
        for work in graph.work:
            work()

    def view(self, value: Any, stream: FakeStream | None) -> Any:
        interface = value.__cuda_array_interface__  # AttributeError for what is no array, as from cuda-core
        dtype = np.dtype(interface["typestr"])
        if stream is not None:
            self.waits.append((stream.handle, interface["stream"]))
        strides = interface["strides"]
        return SimpleNamespace(
            ptr=interface["data"][0],
            shape=interface["shape"],
            strides=strides and tuple(step // dtype.itemsize for step in strides),
            dtype=dtype,
            is_device_accessible=True,
            device_id=value.device,
        )


@dataclass(frozen=True)
class FakeTensor:
    """profiles: (min, opt, max) for each profile."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    on_host: bool = False
    linear: bool = True
    profiles: tuple[tuple[tuple[int, ...], ...], ...] = ()


Shapes = Mapping[str, tuple[int, ...]]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class FakePlan:
    """An engine. compute: input arrays -> output arrays.

    sizes: (input shapes, values of shape tensors) -> output shapes, -1 where the data decide; None: an output with an
    open size has the shape of x.
    """

    inputs: tuple[FakeTensor, ...]
    outputs: tuple[FakeTensor, ...]
    compute: Callable[[Arrays], Arrays]
    sizes: Callable[[Shapes, Arrays], Shapes] | None = None
    profiles: int = 1
    context_memory: int = 1000

    @property
    def tensors(self) -> tuple[FakeTensor, ...]:
        return self.inputs + self.outputs

    def shapes(self, shapes: Shapes, values: Arrays) -> Shapes:
        if self.sizes is not None:
            return self.sizes(shapes, values)
        return {y.name: shapes["x"] if -1 in y.shape else y.shape for y in self.outputs}


class KernelError(Exception):
    """Raised by a FakePlan's compute: a kernel that reads where it must not."""


class FakeTensorRT(ModuleType):
    """The module. plans: the engines that it can load, by what their file holds."""

    def __init__(self, device: FakeDevice, plans: Mapping[bytes, FakePlan], *, rtx: bool = False) -> None:
        super().__init__("fake_tensorrt")
        self.device = device
        self.plans = plans
        self.__version__ = "1.6.1.120" if rtx else "10.13.2.6"
        self.TensorIOMode = enum.Enum("TensorIOMode", ["NONE", "INPUT", "OUTPUT"])
        self.TensorLocation = enum.Enum("TensorLocation", ["DEVICE", "HOST"])
        self.TensorFormat = enum.Enum("TensorFormat", ["LINEAR", "CHW32"])
        self.IOutputAllocator = type("IOutputAllocator", (), {"__init__": lambda self: None})
        self.messages = ThreadMessages()
        self.calls: Counter[str] = Counter()
        self.runtime_config: Any = None
        self.cache_contents = b"kernels"
        if rtx:
            self.DynamicShapesKernelSpecializationStrategy = enum.Enum(
                "DynamicShapesKernelSpecializationStrategy", ["LAZY", "EAGER", "NONE"]
            )
            self.CudaGraphStrategy = enum.Enum("CudaGraphStrategy", ["DISABLED", "WHOLE_GRAPH_CAPTURE"])
            self.EngineInvalidityDiagnostics = enum.IntFlag(
                "EngineInvalidityDiagnostics",
                {"VERSION_MISMATCH": 1, "UNSUPPORTED_CC": 2, "MALFORMED_ENGINE": 32},
            )

    def Runtime(self, logger: Any) -> FakeRuntime:  # noqa: N802
        return FakeRuntime(self)

    def get_plugin_registry(self) -> Any:
        return SimpleNamespace(all_creators=[], load_library=lambda path: None)

    def init_libnvinfer_plugins(self, logger: Any, namespace: str) -> bool:
        return True

    def error(self, message: str) -> None:
        self.messages.add("ERROR", message)


class FakeRuntime:
    def __init__(self, trt: FakeTensorRT) -> None:
        self.trt = trt
        self.engine_host_code_allowed = False
        self.says = ""

    def deserialize_cuda_engine(self, data: Any) -> FakeEngine | None:
        plan = self.trt.plans.get(bytes(data).rstrip(b"."))
        if plan is None:
            self.trt.error("Serialization assertion header.magicTag == kEXPECTED_MAGIC_TAG failed")
            return None
        return FakeEngine(self.trt, plan)

    def get_engine_validity(self, data: Any) -> tuple[Any, int]:
        return None, 2 if bytes(data).startswith(b"other gpu") else 32


class FakeEngine:
    def __init__(self, trt: FakeTensorRT, plan: FakePlan) -> None:
        self.trt = trt
        self.plan = plan
        self.tensors = {tensor.name: tensor for tensor in plan.tensors}
        self.num_io_tensors = len(plan.tensors)
        self.num_optimization_profiles = plan.profiles
        self.device_memory_size_v2 = plan.context_memory

    def get_tensor_name(self, index: int) -> str:
        return self.plan.tensors[index].name

    def get_tensor_mode(self, name: str) -> Any:
        modes = self.trt.TensorIOMode
        return modes.INPUT if self.tensors[name] in self.plan.inputs else modes.OUTPUT

    def get_tensor_location(self, name: str) -> Any:
        places = self.trt.TensorLocation
        return places.HOST if self.tensors[name].on_host else places.DEVICE

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name=self.tensors[name].dtype)

    def get_tensor_format(self, name: str) -> Any:
        formats = self.trt.TensorFormat
        return formats.LINEAR if self.tensors[name].linear else formats.CHW32

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def get_tensor_profile_shape(self, name: str, index: int) -> list[tuple[int, ...]]:
        tensor = self.tensors[name]
        return list(tensor.profiles[index]) if tensor.profiles else [tensor.shape] * 3

    def get_tensor_profile_values(self, index: int, name: str) -> list[list[int]]:
        assert isinstance(index, int) and isinstance(name, str)  # whatever the bindings' own names say
        return [list(part) for part in self.tensors[name].profiles[index]]

    def create_execution_context(self, runtime_config: Any = None) -> FakeContext | None:
        device = self.trt.device
        if device.used + self.plan.context_memory > device.capacity:
            self.trt.error("Requested size was 1000 bytes. Error Code 2: OutOfMemory")
            return None
        self.trt.runtime_config = runtime_config
        return FakeContext(self, runtime_config)

    def create_runtime_config(self) -> Any:
        config = SimpleNamespace(cuda_graph_strategy=None, cache=None)
        config.dynamic_shapes_kernel_specialization_strategy = None
        config.create_runtime_cache = lambda: FakeCache(self.trt)
        config.set_runtime_cache = lambda cache: setattr(config, "cache", cache)
        return config


class FakeCache:
    def __init__(self, trt: FakeTensorRT) -> None:
        self.trt = trt
        self.held = b""

    def deserialize(self, data: bytes) -> bool:
        if not data.startswith(b"kernels"):
            return False
        self.held = data
        return True

    def serialize(self) -> bytes:
        return max(self.held, self.trt.cache_contents, key=len)


class FakeContext:
    def __init__(self, engine: FakeEngine, runtime_config: Any) -> None:
        self.engine = engine
        self.trt = engine.trt
        self.config = runtime_config
        self.profile = 0
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        self.profile = profile
        self.shapes.clear()
        return profile < self.engine.plan.profiles

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.trt.calls["set_input_shape"] += 1
        tensor = self.engine.tensors[name]
        if tensor.profiles and not tensor.on_host:
            low, _, high = tensor.profiles[self.profile]
            if not all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
                self.trt.error("Static dimension mismatch or outside the profile")
                return False
        self.shapes[name] = tuple(shape)
        return True

    def set_tensor_address(self, name: str, pointer: int) -> bool:
        self.trt.calls["set_tensor_address"] += 1
        if not pointer:
            self.trt.error("Parameter check failed: address is null")
            return False
        self.addresses[name] = pointer
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self.allocators[name] = allocator
        return True

    def infer_shapes(self) -> list[str]:
        missing = []
        for tensor in self.engine.plan.inputs:
            if -1 in tensor.shape and tensor.name not in self.shapes:
                missing.append(tensor.name)
            if tensor.on_host and tensor.name not in self.addresses:
                missing.append(tensor.name)
        return missing

    def _sizes(self) -> Shapes:
        plan = self.engine.plan
        shapes = {tensor.name: self.shapes.get(tensor.name, tensor.shape) for tensor in plan.inputs}
        on_host = {tensor.name for tensor in plan.inputs if tensor.on_host}
        return plan.shapes(shapes, {name: a for name, a in self._read().items() if name in on_host})

    def _read(self) -> dict[str, np.ndarray]:
        arrays = {}
        for tensor in self.engine.plan.inputs:
            if tensor.name in self.addresses:
                shape, dtype = self.shapes.get(tensor.name, tensor.shape), trt_dtype_name(tensor.dtype)
                arrays[tensor.name] = at(self.addresses[tensor.name], shape, dtype).copy()
        return arrays

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self._sizes()[name]

    def execute_async_v3(self, stream: int) -> bool:
        self.trt.calls["execute_async_v3"] += 1
        if self.infer_shapes():
            self.trt.error("Not all shapes are specified")
            return False
        for tensor in self.engine.plan.tensors:
            if tensor.name not in self.addresses and tensor.name not in self.allocators:
                self.trt.error(f"Address is not set for {tensor.name}")
                return False
        device = self.trt.device
        if stream not in device.capturing:
            return self._run(stream)
        captured = device.capturing[stream]
        if self.allocators or captured is None:
            device.capturing[stream] = None
            self.trt.error("Cuda Runtime (operation not permitted when stream is capturing)")
            return False
        addresses, shapes = dict(self.addresses), dict(self.shapes)
        captured.append(lambda: self._replayed(addresses, shapes))
        return True

    def _replayed(self, addresses: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> None:
        """A graph has the addresses and shapes of its capture."""
        kept = self.addresses, self.shapes
        self.addresses, self.shapes = addresses, shapes
        self._run(0)
        self.addresses, self.shapes = kept

    def _run(self, stream: int) -> bool:
        device = self.trt.device
        try:
            computed = self.engine.plan.compute(self._read())
        except KernelError:
            device.fault = "CUDA_ERROR_ILLEGAL_ADDRESS"
            return True
        for name, array in computed.items():
            pointer = self.addresses.get(name, 0)
            if name in self.allocators:
                allocator = self.allocators[name]
                pointer = allocator.reallocate_output_async(name, None, array.nbytes, 256, stream)
                if not pointer:
                    self.trt.error(f"Failed to allocate memory for the output {name}")
                    return False
                allocator.notify_shape(name, array.shape)
            device.check_write(pointer, array.nbytes)
            at(pointer, array.shape, array.dtype)[...] = array
        return True


def flavour_of(module: FakeTensorRT) -> Flavour:
    rtx = module.__version__.startswith("1.")
    return Flavour(module, "tensorrt_rtx" if rtx else "tensorrt", version_of(module.__version__))


def log_of(module: FakeTensorRT) -> TensorrtLog:
    return TensorrtLog(None, module.messages, lambda step: None)


def mapped_when(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether a file is mapped into this process when an engine is read, and when a context is made: told as it happens."""
    found: dict[str, bool] = {}

    def telling(kind: type, method: str, moment: str) -> None:
        made = getattr(kind, method)

        def told(self: Any, *arguments: Any) -> Any:
            found[moment] = str(path) in Path("/proc/self/maps").read_text()
            return made(self, *arguments)

        monkeypatch.setattr(kind, method, told)

    telling(FakeRuntime, "deserialize_cuda_engine", "read")
    telling(FakeEngine, "create_execution_context", "context")
    return found
