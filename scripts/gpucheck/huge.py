"""Tensors of more than 2^31 elements: one case for each operator, made on the GPU and checked in places.

What 32-bit arithmetic would get wrong lies at the far end, so that is compared with float64, and some of the near end.
Two operators whose sizes depend on values have no such case, and UNREACHED says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpucheck.metrics import relative_error
from gpucheck.record import Notes
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin.host.device_tensors import run_raw
from trtsmith.converter.plugin.host.host import Host
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import by_name

LIMIT = 2**31
SEED = 11
DEVICE = "cuda"
SAMPLED = 64
"""Queries that are checked in each place."""


@dataclass(frozen=True)
class Huge:
    """check: from the outputs, found and expected in each place."""

    fields: Mapping[str, Any]
    inputs: Mapping[str, Any]
    check: Callable[[list[Any]], list[tuple[str, np.ndarray, np.ndarray]]]


def attention(op: OpDef, side: int = 2900) -> Huge:
    """One level of 2900x2900 and as many queries: value and output have 2.15e9 elements each (4.3 GB)."""
    heads, channels = 8, 32
    rows = side * side
    value = torch.randn(1, rows, heads, channels, device=DEVICE, dtype=torch.float16)
    locations = torch.rand(1, rows, heads, 1, 1, 2, device=DEVICE, dtype=torch.float16)
    locations[:, -SAMPLED:] = 1 - locations[:, -SAMPLED:] * 2**-8  # the last queries read the last rows
    weights = torch.rand(1, rows, heads, 1, 1, device=DEVICE, dtype=torch.float16)
    shapes = torch.tensor([[side, side]], device=DEVICE)
    starts = torch.zeros(1, device=DEVICE, dtype=torch.int64)

    def expected(first: int, last: int) -> np.ndarray:
        """Queries first to last, corner by corner in float64, reading only the rows that they need."""
        pixel = locations[0, first:last, :, 0, 0].double() * side - 0.5
        low = pixel.floor()
        total = torch.zeros(last - first, heads, channels, device=DEVICE, dtype=torch.float64)
        head = torch.arange(heads, device=DEVICE)
        for dx in (0, 1):
            for dy in (0, 1):
                column, row = low[..., 0] + dx, low[..., 1] + dy
                share = (1 - (pixel[..., 0] - column).abs()) * (1 - (pixel[..., 1] - row).abs())
                inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
                share = share * inside * weights[0, first:last, :, 0, 0].double()
                index = (row * side + column).long().clamp(0, rows - 1)
                total += share[..., None] * value[0, index, head].double()
        result: np.ndarray = total.reshape(last - first, heads * channels).cpu().numpy()
        return result

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        places = {
            "first queries": (0, SAMPLED),
            "middle queries": (rows // 2, rows // 2 + SAMPLED),
            "last queries": (rows - SAMPLED, rows),
        }
        return [
            (place, outputs[0][0, first:last].double().cpu().numpy(), expected(first, last))
            for place, (first, last) in places.items()
        ]

    inputs = {
        "value": value,
        "spatial_shapes": shapes,
        "level_start_index": starts,
        "sampling_locations": locations,
        "attention_weights": weights,
    }
    return Huge({}, inputs, check)


def convolution(op: OpDef, side: int = 32800) -> Huge:
    """Two channels of 32800x32800 and a 1x1 kernel: x, offset and output have 2.15e9 elements each (4.3 GB).

    The reference runs on a crop of both far corners. Offsets are quarters of a pixel, up to 4: exact in float32 at any
    position, so that the crop's small coordinates mean the same.
    """
    crop, reach = 96, 6
    fields = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "offset_groups": 1}
    x = torch.randn(1, 2, side, side, device=DEVICE, dtype=torch.float16)
    offset = torch.randint(-16, 17, (1, 2, side, side), device=DEVICE, dtype=torch.int8).to(torch.float16)
    offset /= 4
    inputs = {"x": x, "offset": offset}
    if any(port.name == "mask" for port in op.inputs):
        inputs["mask"] = torch.rand(1, 1, side, side, device=DEVICE, dtype=torch.float16)
    inputs["weight"] = torch.randn(2, 2, 1, 1, device=DEVICE, dtype=torch.float16)
    inputs["bias"] = torch.randn(2, device=DEVICE, dtype=torch.float16)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        places = {
            "near corner": (slice(0, crop), slice(0, crop - reach)),
            "far corner": (slice(side - crop, side), slice(reach, crop)),
        }
        for place, (part, inner) in places.items():
            cropped = {
                name: (tensor[:, :, part, part] if tensor.dim() == 4 and tensor.shape[2] == side else tensor)
                for name, tensor in inputs.items()
            }
            arrays = {name: tensor.cpu().numpy() for name, tensor in cropped.items()}
            wanted = op.reference(fields, arrays)["output"][:, :, inner, inner]
            found = outputs[0][:, :, part, part][:, :, inner, inner].double().cpu().numpy()
            results.append((place, found, wanted))
        return results

    return Huge(fields, inputs, check)


def inverse(op: OpDef, count: int = LIMIT // 16 + 1000) -> Huge:
    """More than 2^27 matrices of 4x4, far from singular: input and output have 2.15e9 elements each (4.3 GB)."""
    x = torch.randn(count, 4, 4, device=DEVICE, dtype=torch.float16).mul_(0.2)
    x.diagonal(dim1=1, dim2=2).add_(2)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        places = {"first matrices": slice(0, 500), "last matrices": slice(count - 500, count)}
        return [
            (place, outputs[0][part].double().cpu().numpy(), np.linalg.inv(x[part].double().cpu().numpy()))
            for place, part in places.items()
        ]

    return Huge({}, {op.inputs[0].name: x}, check)


def selection(op: OpDef, side: int = 32800) -> Huge:
    """Half of the rows of two images of 32800x32800: x has 2.15e9 elements, and the output has room for as many (4.3 GB)."""
    x = torch.randn(2, side, side, device=DEVICE, dtype=torch.float16)
    condition = torch.rand(side, device=DEVICE) < 0.5
    condition[-1] = True
    taken = condition.nonzero()[:, 0]
    count = len(taken)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        packed = outputs[0].reshape(-1)[: 2 * count * side].reshape(2, count, side)
        return [
            ("count", outputs[1].double().cpu().numpy(), np.array(float(count))),
            ("first rows", _numbers(packed[0, :SAMPLED]), _numbers(x[0, taken[:SAMPLED]])),
            ("last rows", _numbers(packed[1, -SAMPLED:]), _numbers(x[1, taken[-SAMPLED:]])),
        ]

    return Huge({"axis": 1}, {"x": x, "condition": condition}, check)


def different(op: OpDef, side: int = 46400) -> Huge:
    """46400 rows of as many elements, the last ones as the first: x and the output's room have 2.15e9 elements (4.3 GB)."""
    x = torch.randn(side, side, device=DEVICE, dtype=torch.float16)
    again = min(SAMPLED, side // 3)
    x[-again:] = x[:again]
    count = side - again

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output, first, inverse, _, found = outputs
        packed = output.reshape(-1)[: count * side].reshape(count, side)
        groups = inverse.long().clamp(0, count - 1)
        middle = slice(side // 2, side // 2 + again)
        return [
            ("count", found.double().cpu().numpy(), np.array(float(count))),
            ("middle rows", _numbers(packed[groups[middle]]), _numbers(x[middle])),
            ("last rows", _numbers(packed[groups[-again:]]), _numbers(x[-again:])),
            ("first positions of the last rows", _numbers(first[groups[-again:]]), np.arange(again) + 0.0),
            ("order", _numbers(packed[:, 0]), np.sort(_numbers(x[:count, 0]))),
        ]

    return Huge({"axis": 0, "sorted": 1}, {"x": x}, check)


def _numbers(tensor: Any) -> np.ndarray:
    numbers: np.ndarray = tensor.double().cpu().numpy()
    return numbers


UNREACHED: Mapping[str, str] = {
    "NonZeroPositions": "it refuses 2^31 elements, whose number a size tensor might not hold",
    "BoxSelection": "it needs 69 GB of workspace for 2^31 scores",
}
"""Operators without a case, and why."""

HUGE: Mapping[str, Callable[[OpDef], Huge]] = {
    "MultiscaleDeformableAttention": attention,
    "ModulatedDeformableConvolution": convolution,
    "DeformableConvolution": convolution,
    "MatrixInverse": inverse,
    "SelectedSlices": selection,
    "UniqueSlices": different,
}


def check(notes: Notes) -> None:
    ran = 0
    with Host().open(plugin_library()) as library:
        for name, op in by_name().items():
            if name in UNREACHED:
                notes.row(op=name, unreached=UNREACHED[name])
                continue
            if name not in HUGE:
                notes.failure(f"{name}: no case of more than 2^31 elements is written")
                continue
            torch.manual_seed(SEED)
            torch.cuda.reset_peak_memory_stats()
            huge = HUGE[name](op)
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
