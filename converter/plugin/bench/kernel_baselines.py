"""Lists the baselines that `trtsmith plugin bench` times our kernels against."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from trtsmith.converter.plugin.bench.kernel_figures import Measured, Unavailable
from trtsmith.converter.plugin.bench.kernel_torch import TorchSubject, tf32, time_runs
from trtsmith.importers.opdef import TorchFunction

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
    """By name; those with TF32 end in "_tf32"."""
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
    """Raise NotAvailableError in the body after this many seconds. Only the main thread can be interrupted."""
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
