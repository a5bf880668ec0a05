"""Makes execution contexts for TensorRT and TensorRT-RTX, and captures their work in CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.cache import RuntimeCache
from trtsmith.converter.engine.runtime.device import CudaGraph, Device, DeviceError, Stream
from trtsmith.converter.engine.runtime.explain_failure import context_problem
from trtsmith.converter.engine.runtime.loading import LoadedEngine

# Names that only TensorRT-RTX has; each is used behind a test of the flavour's name.
RTX_ONLY = frozenset(
    {
        "CudaGraphStrategy",
        "CudaGraphStrategy.WHOLE_GRAPH_CAPTURE",
        "DynamicShapesKernelSpecializationStrategy",
        "DynamicShapesKernelSpecializationStrategy.EAGER",
        "DynamicShapesKernelSpecializationStrategy.LAZY",
        "DynamicShapesKernelSpecializationStrategy.NONE",
        "IRuntimeConfig.cuda_graph_strategy",
        "IRuntimeConfig.dynamic_shapes_kernel_specialization_strategy",
        "IRuntimeConfig.set_runtime_cache",
    }
)


def create_context(
    loaded: LoadedEngine,
    kernels: RuntimeCache | None,
    *,
    cuda_graph: bool,
    specialization: str,
    profile: int,
    device: Device,
    stream: Stream,
) -> Any:
    """Makes an IExecutionContext set to an optimization profile. Raises UsageError if TensorRT makes none.

    kernels: TensorRT-RTX's cache of what it compiled.
    cuda_graph: TensorRT-RTX captures and replays by itself, which also tells it when kernels that it compiles in the
    background are there; for TensorRT converter/engine/runtime/context.py does it.
    specialization: one of SPECIALIZATIONS, for TensorRT-RTX.
    """
    trt: Any = loaded.flavour.module
    engine = loaded.engine
    loaded.log.take_errors()
    if loaded.flavour.is_rtx:
        runtime_config = engine.create_runtime_config()
        runtime_config.dynamic_shapes_kernel_specialization_strategy = {
            "eager": trt.DynamicShapesKernelSpecializationStrategy.EAGER,
            "lazy": trt.DynamicShapesKernelSpecializationStrategy.LAZY,
            "none": trt.DynamicShapesKernelSpecializationStrategy.NONE,
        }[specialization]
        if kernels is not None:
            runtime_config.set_runtime_cache(kernels.runtime_cache)
        if cuda_graph:
            runtime_config.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        context = engine.create_execution_context(runtime_config)
    else:
        context = engine.create_execution_context()
    if context is None:
        said = loaded.log.take_errors()
        raise UsageError(context_problem(said, loaded.info.device_memory, loaded.origin))
    if profile:
        if not context.set_optimization_profile_async(profile, stream.handle):
            said = loaded.log.take_errors()
            raise UsageError(context_problem(said, loaded.info.device_memory, loaded.origin))
        device.synchronise(stream)
    return context


_MOST_GRAPHS = 8  # a ring of buffers has two or three; each graph holds memory of the driver's

Addresses = tuple[int, ...]


class GraphReplay:
    """Captures on the second run with the same addresses, and replays from then on.

    The first run is not captured: TensorRT prepares itself in it for new shapes, by calls that cannot be captured.
    """

    def __init__(self, device: Device, stream: Stream, warn: Callable[[str], None]) -> None:
        self._device = device
        self._stream = stream
        self._warn = warn
        self._graphs: dict[Addresses, CudaGraph | None] = {}
        self._captures = True
        self._told = False

    def forget(self) -> None:
        """Drops the captured graphs, since the shapes changed."""
        self._graphs.clear()

    def leave_to_tensorrt(self) -> None:
        """Stops capturing here: TensorRT-RTX captures itself. Where it cannot, only the reason is told."""
        self._captures = False

    def give_up(self, reason: str) -> None:
        """Runs everything without graphs from here on, and tells the user why, once."""
        if not self._told:
            self._warn(f"no CUDA graph is used: {reason}")
        self._told = True
        self._captures = False
        self._graphs.clear()

    def find(self, addresses: Addresses, execute: Callable[[int], Any]) -> CudaGraph | None:
        """Returns the graph to launch for these addresses; None if `execute` must queue the work this time."""
        if not self._captures:
            return None
        if addresses not in self._graphs:
            if len(self._graphs) >= _MOST_GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[addresses] = None
            return None
        graph = self._graphs[addresses]
        if graph is None:
            try:
                graph = self._graphs[addresses] = self._capture(execute)
            except DeviceError as error:
                self.give_up(str(error))
        return graph

    def _capture(self, execute: Callable[[int], Any]) -> CudaGraph:
        self._device.begin_capture(self._stream)
        try:
            queued = execute(self._stream.handle)
        finally:
            graph = self._device.end_capture(self._stream)
        if not queued:
            raise DeviceError("TensorRT", "the engine's work could not be captured")
        return graph
