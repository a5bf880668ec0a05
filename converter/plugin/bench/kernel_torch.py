"""Measures on the GPU for `trtsmith plugin bench`, on PyTorch's memory, streams and events.

Every run is timed by itself, between two events. The GPU is kept busy until the run and both events are queued, so that
no time of the host is in it; and the runs take sets of inputs and outputs in turn, copies of one another at addresses of
their own, so that none finds its memory in the cache, unless one set is asked for. What lies at one address in an engine
does so here too.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import numpy as np
import torch

from trtsmith.converter.plugin.bench.kernel_bench import Ceilings, Measured, Times, Unavailable
from trtsmith.converter.plugin.host.enqueue import prepared
from trtsmith.converter.plugin.host.host import Creator, Host, PluginLibrary
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.importers.opdef import Arrays, Case, OpDef, TorchFunction

DEVICE = "cuda"
WARMUP = 10

_SPIN_HZ = 2e9
"""torch.cuda._sleep counts clock cycles; a lower clock only makes it longer."""


class ConstantInput:
    """An index input as the framework's formulation reads it, on the host: no copy from the GPU is timed, and
    torch.compile sees constants."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def tolist(self) -> list[Any]:
        return self._values

    def __getitem__(self, index: int) -> Any:
        return self._values[index]


class TorchSubject:
    """One case in one dtype. sets: tensors by port name, on the GPU; they differ only in their addresses."""

    def __init__(
        self, bench: TorchBench, op: OpDef, case: Case, generated: Arrays, dtype: str, sets: int
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
            port.name: ConstantInput(generated[port.name].tolist())
            for port in op.inputs
            if port.type == "I" and port.name in op.constants and port.name in generated
        }
        self._reference: list[Any] | None = None

    def framework_sets(self) -> list[dict[str, Any]]:
        """Returns the sets in the form that OpDef.torch_reference takes."""
        return [tensors | self.constants for tensors in self.sets]

    def error(self, outputs: Sequence[Any]) -> float:
        """Returns the largest relative error of an output against float64; infinite for anything that is not finite.

        Of an operator without a tolerance, whose results are exact: against float64 in the output's type.
        """
        if self._reference is None:
            self._reference = self._compute_reference()
        wanted = [
            (right if self.op.tolerance else right.to(found.dtype)).double()
            for found, right in zip(outputs, self._reference, strict=True)
        ]
        errors = [
            float((found.double() - right).norm() / right.norm())
            for found, right in zip(outputs, wanted, strict=True)
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
        """Runs our kernel through the plugin host. Outputs hold no results at first, and are looked at before and after."""
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
    """Runs call(i) with i going round the sets, `count` times after WARMUP others."""
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
    """Sets, for the block, whether PyTorch's float32 products and convolutions may round their operands to TF32."""
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


MESSAGE = 160
"""Characters of another program's error that go into the record."""

TF32_TOO = ("eager", "torchvision", "convolution")
"""Baselines that are timed in float32 twice: exact, and with products in TF32."""


class NotAvailableError(Exception):
    """A baseline cannot be measured; the text says why."""


Run = Callable[[int], Sequence[Any]]
"""Computes with the set of this number; returns the outputs."""


def measure_baselines(
    subject: TorchSubject, names: Sequence[str], count: int
) -> dict[str, Measured | Unavailable]:
    """Measures baselines by name; those with TF32 end in "_tf32"."""
    found: dict[str, Measured | Unavailable] = {}
    for name in names:
        variants = {name: False}
        if subject.op.tensor_cores and subject.dtype == "float32" and name in TF32_TOO:
            variants[f"{name}_tf32"] = True
        for label, rounded in variants.items():
            with tf32(rounded):
                found[label] = _measure(subject, name, count)
            torch.cuda.empty_cache()
    return found


def _measure(subject: TorchSubject, name: str, count: int) -> Measured | Unavailable:
    try:
        run = _PREPARE[name](subject) if name in _PREPARE else _other(subject, name)
        error = None if name == "convolution" else subject.error(run(0))
        return Measured(time_runs(run, len(subject.sets), count), error)
    except NotAvailableError as reason:
        return Unavailable(str(reason))
    except Exception as failure:  # whatever keeps another program from computing this is its own affair
        lines = str(failure).strip().splitlines() or [""]
        return Unavailable(f"{type(failure).__name__}: {lines[0]}"[:MESSAGE])


def _framework(subject: TorchSubject) -> TorchFunction:
    if subject.op.torch_reference is None:
        raise NotAvailableError(f"{subject.op.name} has no PyTorch side")
    return subject.op.torch_reference


def _eager(subject: TorchSubject) -> Run:
    compute, sets = _framework(subject), subject.framework_sets()
    return lambda i: compute(subject.fields, sets[i])


def _compiled(subject: TorchSubject) -> Run:
    torch._dynamo.reset()
    compute, fields, sets = _framework(subject), subject.fields, subject.framework_sets()
    function = torch.compile(lambda tensors: compute(fields, tensors), dynamic=False)
    with time_box(subject.bench.compile_s):
        function(sets[0])
        torch.cuda.synchronize()
    return lambda i: function(sets[i])


def _other(subject: TorchSubject, name: str) -> Run:
    """An implementation that the operator's definition has."""
    op, fields = subject.op, subject.fields
    if name not in op.baselines:
        raise NotAvailableError(f"{op.name} has no such baseline")
    return lambda i: op.baselines[name](fields, subject.sets[i])


def _expansion(subject: TorchSubject) -> Run:
    try:
        import onnxruntime
    except ImportError:
        raise NotAvailableError("onnxruntime is not installed") from None
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise NotAvailableError("this onnxruntime has no CUDA provider")
    from trtsmith.converter.plugin.bench.kernel_expansion import cuda_runs  # needs onnxruntime

    return cuda_runs(subject.op, subject.fields, subject.sets, subject.bench.stream.cuda_stream)


_PREPARE: Mapping[str, Callable[[TorchSubject], Run]] = {
    "eager": _eager,
    "compile": _compiled,
    "expansion": _expansion,
}


@contextmanager
def time_box(seconds: float) -> Iterator[None]:
    """Raises NotAvailableError in the body after this many seconds. Only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise NotAvailableError(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class TorchBench:
    """The first GPU and plugin libraries on it. compile_s: the most that torch.compile may take for one case."""

    def __init__(self, libraries: Sequence[PluginLibrary], compile_s: float) -> None:
        properties = torch.cuda.get_device_properties(0)
        self._libraries = libraries
        self.compile_s = compile_s
        self.l2_bytes = int(properties.L2_cache_size)
        # An eighth: the formulations in PyTorch need several times the tensors' size for what lies between.
        self.memory = int(properties.total_memory) // 8
        # The legacy stream: torchvision launches part of its work there, whatever the current stream is, and events on
        # another would not see it.
        self.stream = torch.cuda.default_stream()
        torch.backends.cudnn.benchmark = True  # cuDNN's best algorithm, not its first guess

    def creator(self, plugin: str) -> Creator:
        """Returns the creator of that plugin, from the first library that has it. LookupError if none has."""
        having = [x for x in self._libraries if any(c.info.name == plugin for c in x.creators)]
        return (having or self._libraries)[0].creator(plugin)

    def ceilings(self) -> Ceilings:
        """Times a copy of 2 GiB, products of random matrices of 8192 x 8192, and no work at all."""
        names = ("float32", "tf32", "float16", "bfloat16")
        copy, products = _copy_rate(min(2 << 30, self.memory // 2)), {n: _product_rate(n) for n in names}
        rates = Ceilings(copy, products, time_runs(lambda _: None, 1, 50).median)
        torch.cuda.empty_cache()
        return rates

    def subject(self, op: OpDef, case: Case, generated: Arrays, dtype: str, sets: int) -> TorchSubject:
        return TorchSubject(self, op, case, generated, dtype, sets)

    def baselines(
        self, subject: TorchSubject, names: Sequence[str], count: int
    ) -> Mapping[str, Measured | Unavailable]:
        return measure_baselines(subject, names, count)


@contextmanager
def open_bench(libraries: Path | Sequence[Path], compile_s: float) -> Iterator[TorchBench]:
    """Opens the machine. libraries: one, or several with plugins of different names."""
    host = Host()
    with ExitStack() as stack:
        paths = [libraries] if isinstance(libraries, Path) else libraries
        yield TorchBench([stack.enter_context(host.open(path)) for path in paths], compile_s)


def _copy_rate(size: int) -> float:
    """Bytes/s, read and written together."""
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * size / (time_runs(lambda _: target.copy_(source), 1, 20).median / 1e6)


def _product_rate(name: str, n: int = 8192) -> float:
    """FLOP/s."""
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    a, b = (torch.randn(n, n, device=DEVICE, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    with tf32(name == "tf32"):
        times = time_runs(lambda _: torch.matmul(a, b, out=out), 1, 20)
    return 2 * n**3 / (times.median / 1e6)
