"""The expansion of one operator as a TensorRT engine, built and run in this process on PyTorch's memory.

For a plugin's figures beside those of the same operator made of standard ones, where no engine can hold the plugin:
TensorRT-RTX before 1.7.1 imports none, and later ones do not run on every GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from converter.benchmark.expansion_model import engine_model
from converter.build.flavour import Flavour, network_flags
from converter.plugin.bench_figures import Measured
from converter.plugin.bench_torch import DEVICE, TorchSubject, time_runs
from importers.opdef import Arrays, OpDef

HOST_RUNS = 20


class NoEngineError(Exception):
    """The expansion cannot be built or run; the text is TensorRT's."""


@dataclass(frozen=True)
class EngineFigures:
    """What one engine took.

    measured:       its times on the GPU and its error against float64.
    engine_bytes:   the serialized engine, weights included.
    device_memory:  bytes of activation memory that a context of it takes.
    layers:         layers of the engine.
    build_s:        building, loading and making a context, which for TensorRT-RTX compiles the kernels.
    enqueue_us:     median time of the host in execute_async_v3.
    target:         the compute capability that it was built for, as TensorRT-RTX names it.
    """

    measured: Measured
    engine_bytes: int
    device_memory: int
    layers: int
    build_s: float
    enqueue_us: float
    target: str


def measure_expansion(
    flavour: Flavour, subject: TorchSubject, generated: Arrays, count: int
) -> EngineFigures:
    """Build the engine of the subject's expansion, check its numbers and time it.

    On the subject's own tensors, in turn, between events, as the plugin's kernel is timed. Outputs hold NaN before and are
    looked at before and after. Raises NoEngineError.
    """
    model = engine_model(subject.op, subject.fields, generated, subject.dtype)
    torch.cuda.empty_cache()
    began = time.perf_counter()
    plan, engine, context, target = _open(flavour, model.SerializeToString())
    build_s = time.perf_counter() - began
    inputs = [value.name for value in model.graph.input]
    stream = torch.cuda.Stream()  # TensorRT waits for the GPU when it is given the default stream
    outputs = [_outputs(flavour, engine, subject.op) for _ in subject.sets]
    run = _runs(context, inputs, subject.sets, outputs, stream.cuda_stream)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        run(0)
        torch.cuda.synchronize()
        before = subject.error(list(outputs[0].values()))
        times = time_runs(run, len(subject.sets), count)
        enqueue_us = _host_time(lambda: context.execute_async_v3(stream.cuda_stream))
    error = max(before, subject.error(list(outputs[1].values())))
    memory = int(engine.device_memory_size_v2)
    return EngineFigures(
        Measured(times, error, None),
        plan.nbytes,
        memory,
        int(engine.num_layers),
        build_s,
        enqueue_us,
        target,
    )


def _open(flavour: Flavour, model: bytes) -> tuple[Any, Any, Any, str]:
    """(plan, engine, context, target). TensorRT-RTX is asked to build for the GPU that is there, and if that fails
    without saying for which."""
    logger = _logger(flavour)
    reasons = []
    for target in ("CURRENT", "") if flavour.is_rtx else ("",):
        try:
            return (*_build(flavour, logger, model, target), target)
        except NoEngineError as error:
            reasons.append(str(error))
    raise NoEngineError(reasons[-1])


def _build(flavour: Flavour, logger: Any, model: bytes, target: str) -> tuple[Any, Any, Any]:
    trt: Any = flavour.module
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(flavour))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model):
        raise NoEngineError(parser.get_error(0).desc() if parser.num_errors else "the parser gave no reason")
    config = builder.create_builder_config()
    if target:
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(trt.ComputeCapability, target), 0)
    logger.errors.clear()
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise NoEngineError(f"the build failed: {logger.last()}")
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    if engine is None:
        raise NoEngineError(f"the engine cannot be loaded: {logger.last()}")
    context = engine.create_execution_context()
    if context is None:
        raise NoEngineError(f"no execution context: {logger.last()}")
    return plan, engine, context


def _logger(flavour: Flavour) -> Any:
    trt: Any = flavour.module

    class Log(trt.ILogger):  # type: ignore[misc]  # no types
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity.name in ("ERROR", "INTERNAL_ERROR"):
                self.errors.append(message)

        def last(self) -> str:
            return self.errors[-1] if self.errors else "no message"

    return Log()


def _outputs(flavour: Flavour, engine: Any, op: OpDef) -> dict[str, Any]:
    """Tensors of NaN for the operator's outputs, in its order, by name."""
    trt: Any = flavour.module
    types = {
        trt.DataType.FLOAT: torch.float32,
        trt.DataType.HALF: torch.float16,
        trt.DataType.BF16: torch.bfloat16,
    }
    return {
        port.name: torch.full(
            tuple(engine.get_tensor_shape(port.name)),
            math.nan,
            dtype=types[engine.get_tensor_dtype(port.name)],
            device=DEVICE,
        )
        for port in op.outputs
    }


def _runs(
    context: Any,
    inputs: Sequence[str],
    sets: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, Any]],
    stream: int,
) -> Callable[[int], None]:
    addresses = [
        [(name, tensors[name].data_ptr()) for name in inputs]
        + [(n, t.data_ptr()) for n, t in results.items()]
        for tensors, results in zip(sets, outputs, strict=True)
    ]

    def run(i: int) -> None:
        for name, address in addresses[i]:
            context.set_tensor_address(name, address)
        if not context.execute_async_v3(stream):
            raise NoEngineError("execute_async_v3 failed")

    return run


def _host_time(call: Callable[[], Any]) -> float:
    """Median microseconds until the call returns, with an idle GPU."""
    taken = []
    for _ in range(HOST_RUNS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e6)
    torch.cuda.synchronize()
    return median(taken)
