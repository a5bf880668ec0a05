"""Makes execution contexts for TensorRT and TensorRT-RTX."""

from __future__ import annotations

from typing import Any

from trtsmith.converter.engine.runtime.cache import RuntimeCache
from trtsmith.converter.engine.runtime.device import Device, Stream
from trtsmith.converter.engine.runtime.explain_failure import context_problem
from trtsmith.converter.engine.runtime.loading import LoadedEngine
from trtsmith.converter.model.errors import UsageError

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
    """An IExecutionContext that is set to an optimization profile. UsageError where TensorRT makes none.

    kernels: TensorRT-RTX's cache of what it compiled.
    cuda_graph: TensorRT-RTX captures and replays by itself, which also tells it when kernels that it compiles in the
    background are there; for TensorRT converter/engine/runtime/cuda_graph.py does it.
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
