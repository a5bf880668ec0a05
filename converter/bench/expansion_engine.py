"""Builds the expansion of one operator as a TensorRT engine and runs it in this process on PyTorch's memory.

For a plugin's figures beside those of the same operator made of standard ones, where no engine can hold the plugin:
TensorRT-RTX before 1.7.1 imports none, and later ones do not run on every GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.bench.layers import parse_inspector
from trtsmith.converter.engine.builder.flavour import Flavour, network_flags
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.runtime_log import process_log
from trtsmith.converter.plugin.bench.kernel_bench import Measured, digits, measured_json
from trtsmith.converter.plugin.bench.kernel_expansion import engine_model
from trtsmith.converter.plugin.bench.kernel_torch import TorchSubject, time_runs
from trtsmith.importers.opdef import Arrays

HOST_RUNS = 20


class NoEngineError(Exception):
    """The expansion cannot be built; the text is TensorRT's."""


def measure_expansion(
    flavour: Flavour, subject: TorchSubject, generated: Arrays, count: int
) -> dict[str, Any]:
    """Builds the engine of the subject's expansion, checks its numbers and times it. Returns the figures for JSON.

    engine_bytes: the serialized engine, weights included. device_memory: bytes of activation memory that a context of it
    takes. layers: of the engine. build_s: building, loading and the first run, for which TensorRT-RTX compiles the kernels.
    enqueue_us: median time of the host to enqueue it, with an idle GPU. target: the compute capability that it was built
    for, as TensorRT-RTX names it. The others are those of the plugin's kernel, too.

    On the subject's own tensors, in turn, between events, as the plugin's kernel is timed. Outputs are compared with
    float64 before and after. Raises NoEngineError, and UsageError as Runner.open does.
    """
    model = engine_model(subject.op, subject.fields, generated, subject.dtype)
    torch.cuda.empty_cache()
    began = time.perf_counter()
    plan, runner, target = _open(flavour, model.SerializeToString())
    stream = torch.cuda.Stream()  # TensorRT waits for the GPU when it is given the default stream
    session = runner.session(stream=stream)
    inputs = [value.name for value in model.graph.input]
    sets = [{name: tensors[name] for name in inputs} for tensors in subject.sets]

    def run(i: int) -> list[Any]:
        found = session.infer(sets[i], synchronise=False)
        return [found[port.name] for port in subject.op.outputs]

    def error_of(i: int) -> float:
        outputs = [torch.utils.dlpack.from_dlpack(tensor) for tensor in run(i)]
        torch.cuda.synchronize()
        return subject.error(outputs)

    with torch.cuda.stream(stream):
        before = error_of(0)
        build_s = time.perf_counter() - began
        times = time_runs(run, len(sets), count)
        enqueue_us = _host_time(session.enqueue)
        error = max(before, error_of(1))
    return {
        **measured_json(Measured(times, error)),
        "engine_bytes": len(plan),
        "device_memory": runner.info.device_memory,
        "layers": len(parse_inspector(runner.inspect())),
        "build_s": digits(build_s),
        "enqueue_us": digits(enqueue_us),
        "target": target,
    }


def _open(flavour: Flavour, model: bytes) -> tuple[bytes, Runner, str]:
    """(plan, its runner, target). TensorRT-RTX is asked to build for the GPU that is there, and if that fails without
    saying for which."""
    targets = ("CURRENT", "") if flavour.is_rtx else ("",)
    for target in targets:
        try:
            plan = build_here(flavour, model, target)
            return plan, Runner.open(plan, flavour=flavour.name), target
        except (NoEngineError, UsageError):
            if target == targets[-1]:
                raise
    raise AssertionError("there is always a last target")


def build_here(flavour: Flavour, model: bytes, target: str) -> bytes:
    """Builds the serialized engine of an ONNX model with static shapes and without plugins, in this process.

    target: a member of TensorRT-RTX's ComputeCapability, or "" to name none. Raises NoEngineError.
    """
    trt: Any = flavour.module
    log = process_log(flavour)
    builder = trt.Builder(log.logger)
    network = builder.create_network(network_flags(flavour))
    parser = trt.OnnxParser(network, log.logger)
    if not parser.parse(model):
        parser_error = parser.get_error(0)
        raise NoEngineError(parser_error.desc())
    config = builder.create_builder_config()
    if target:
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(trt.ComputeCapability, target), 0)
    log.take_errors()
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise NoEngineError("the build failed: " + (" ".join(log.take_errors()) or "no message"))
    return bytes(plan)


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
