"""Runs every operator on tensors of more than 2^31 elements, which are made and spot-checked on the GPU.

What 32-bit arithmetic would get wrong lies at the far end, so that is compared with float64, and some of the near end.
tests/importers/foreign has the cases, or says why an operator has none.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpucheck.metrics import relative_error
from gpucheck.record import Notes
from tests.importers.foreign import HUGE
from tests.importers.foreign.model import Huge
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin.host.enqueue import run_raw
from trtsmith.converter.plugin.host.host import Host
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import by_name

LIMIT = 2**31
SEED = 11
DEVICE = "cuda"


def check(notes: Notes) -> None:
    ran = 0
    with Host().open(plugin_library()) as library:
        for name, op in by_name().items():
            case = HUGE[name]
            if isinstance(case, str):
                notes.row(op=name, unreached=case)
                continue
            torch.manual_seed(SEED)
            torch.cuda.reset_peak_memory_stats()
            huge = case.make(case.size, DEVICE)
            with library.creator(name).create(dict(huge.fields)) as plugin:
                _one(op, plugin, huge, notes)
            ran += 1
            del huge
            torch.cuda.empty_cache()
    notes.summary(f"{ran} operators on tensors of more than 2^31 elements, float16")


def _one(op: OpDef, plugin: Any, huge: Huge, notes: Notes) -> None:
    kept: list[Any] = []

    def allocate(size: int) -> int:
        memory = torch.empty(size, dtype=torch.uint8, device=DEVICE)
        kept.append(memory)
        return int(memory.data_ptr())

    described = [
        (TensorDesc(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)), int(tensor.data_ptr()))
        for tensor in huge.inputs.values()
    ]
    torch.cuda.synchronize()
    found = run_raw(plugin, described, allocate)
    memory = {int(block.data_ptr()): block for block in kept if block.numel()}
    outputs = [memory[at].view(getattr(torch, desc.dtype)).reshape(desc.shape) for desc, at in found]
    largest = max(math.prod(desc.shape) for desc, _ in (*described, *found))
    if largest <= LIMIT:
        notes.failure(f"{op.name}: the largest tensor has {largest} elements, not more than 2^31")
    tolerance = op.tolerance.get("float16", 0.0)
    for place, got, wanted in huge.check(outputs):
        error = relative_error(got, wanted)
        gigabytes = torch.cuda.max_memory_allocated() / 1e9
        notes.row(
            op=op.name, place=place, largest=largest, error=error, tolerance=tolerance, gigabytes=gigabytes
        )
        if not error <= tolerance:
            notes.failure(f"{op.name}, {place}: error {error:.3g}, tolerance {tolerance:.3g}")
