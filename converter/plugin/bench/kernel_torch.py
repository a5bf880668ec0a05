"""Measures on the GPU for `trtsmith plugin bench`, on PyTorch's memory, streams and events.

Every run is timed by itself, between two events. The GPU is kept busy until the run and both events are queued, so that
no time of the host is in it; and the runs take sets of inputs and outputs in turn, copies of one another at addresses of
their own, so that none finds its memory in the cache, unless one set is asked for. What lies at one address in an engine
does so here too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, Protocol

import numpy as np
import torch

from trtsmith.converter.plugin.bench.kernel_figures import Measured, Times
from trtsmith.converter.plugin.host.device_tensors import prepared
from trtsmith.converter.plugin.host.host import Creator
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.importers.opdef import Arrays, Case, OpDef

DEVICE = "cuda"
WARMUP = 10

_SPIN_HZ = 2e9
"""torch.cuda._sleep counts clock cycles; a lower clock only makes it longer."""


class Constant:
    """An index input as the framework's formulation reads it, on the host: no copy from the GPU is timed, and
    torch.compile sees constants."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def tolist(self) -> list[Any]:
        return self._values

    def __getitem__(self, index: int) -> Any:
        return self._values[index]


class Setting(Protocol):
    """What subjects are measured with: the plugins' creators by name, and the stream that everything runs on."""

    stream: Any
    compile_s: float

    def creator(self, plugin: str) -> Creator: ...


class TorchSubject:
    """One case in one dtype. sets: tensors by port name, on the GPU; they differ only in their addresses."""

    def __init__(
        self, bench: Setting, op: OpDef, case: Case, generated: Arrays, dtype: str, sets: int
    ) -> None:
        self.bench, self.op, self.fields, self.dtype = bench, op, case.fields, dtype
        types = {variable: getattr(torch, name) for variable, name in op.dtypes(dtype).items()}
        first = {
            port.name: torch.from_numpy(np.ascontiguousarray(generated[port.name]))
            .to(DEVICE)
            .to(types[port.type])
            for port in op.inputs
            if port.name in generated
        }
        self.sets = [first] + [
            {name: tensor if name in op.constants else tensor.clone() for name, tensor in first.items()}
            for _ in range(sets - 1)
        ]
        self.constants = {
            port.name: Constant(generated[port.name].tolist())
            for port in op.inputs
            if port.type == "I" and port.name in op.constants and port.name in generated
        }
        self._reference: list[Any] | None = None

    def framework_sets(self) -> list[dict[str, Any]]:
        """The sets as OpDef.torch_reference is to get them."""
        return [tensors | self.constants for tensors in self.sets]

    def error(self, outputs: Sequence[Any]) -> float:
        """The largest relative error of an output against float64; infinite for anything that is not finite."""
        if self._reference is None:
            self._reference = self._compute_reference()
        errors = [
            float((found.double() - right.double()).norm() / right.double().norm())
            for found, right in zip(outputs, self._reference, strict=True)
        ]
        return max((error if math.isfinite(error) else math.inf for error in errors), default=0.0)

    def _compute_reference(self) -> list[Any]:
        """Computes the reference of the inputs as the kernel gets them, in float64: on the GPU, or in numpy."""
        wide = {n: t.double() if t.is_floating_point() else t for n, t in self.sets[0].items()}
        if self.op.torch_reference is not None:
            try:
                return list(self.op.torch_reference(self.fields, wide | self.constants))
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
        arrays = {name: tensor.cpu().numpy() for name, tensor in wide.items()}
        results = self.op.reference(self.fields, arrays)
        return [torch.from_numpy(results[port.name]).to(DEVICE) for port in self.op.outputs]

    def ours(self, count: int) -> Measured:
        """Our kernel through the plugin host. Outputs hold no results at first, and are looked at before and after."""
        kept: list[Any] = []

        def allocate(size: int) -> int:
            kept.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))
            return int(kept[-1].data_ptr())

        with ExitStack() as stack:
            creator = self.bench.creator(self.op.name)
            plugin = stack.enter_context(creator.create(dict(self.fields)))
            ready = stack.enter_context(prepared(plugin, [_desc(t) for t in self.sets[0].values()], allocate))
            outputs = [
                [
                    torch.full(
                        desc.shape, _unwritten(desc.dtype), dtype=getattr(torch, desc.dtype), device=DEVICE
                    )
                    for desc in ready.outputs
                ]
                for _ in self.sets
            ]
            buffers = [
                ready.buffers(
                    [tensor.data_ptr() for tensor in tensors.values()],
                    [tensor.data_ptr() for tensor in results],
                    self.bench.stream.cuda_stream,
                )
                for tensors, results in zip(self.sets, outputs, strict=True)
            ]
            torch.cuda.synchronize()
            ready.run(buffers[0])  # a failure says here what it is
            before = self.error(outputs[0])
            times = time_runs(lambda i: ready.enqueue(buffers[i]), len(buffers), count)
            last = outputs[min(len(outputs), WARMUP + count) - 1]  # of many sets not all are taken
            return Measured(times, max(before, self.error(last)), ready.workspace_size)

    def close(self) -> None:
        self.sets, self._reference = [], None
        torch.cuda.empty_cache()


def time_runs(call: Callable[[int], Any], sets: int, count: int) -> Times:
    """Run call(i) with i going round the sets, `count` times after WARMUP others."""
    host = []
    for i in range(max(WARMUP, 2)):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call(i % sets)
        host.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    spin = int((1.5 * median(host) + 30e-6) * _SPIN_HZ)
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    for i, (start, stop) in enumerate(events):
        torch.cuda._sleep(spin)
        start.record()
        call((i + WARMUP) % sets)
        stop.record()
    torch.cuda.synchronize()
    return Times.of([1000.0 * start.elapsed_time(stop) for start, stop in events])


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether PyTorch's float32 products and convolutions may round their operands to TF32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _unwritten(dtype: str) -> float:
    """A value that no kernel computes: NaN, or the least integer."""
    given = getattr(torch, dtype)
    return math.nan if given.is_floating_point else torch.iinfo(given).min


def _desc(tensor: Any) -> TensorDesc:
    return TensorDesc(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
