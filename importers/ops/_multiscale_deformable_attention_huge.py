"""Runs multi-scale deformable attention, in both its forms, on tensors of more than 2^31 elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Huge, HugeCase
from trtsmith.importers.ops._huge import SAMPLED, numbers

_HEADS, _CHANNELS = 8, 32


def _huge(
    side: int, device: str, samples: dict[str, Any], pixel: Callable[[int, int], Any], weights: Any
) -> Huge:
    """One level of side x side and as many queries: at 2900, value and output have 2.15e9 elements each (4.3 GB).

    samples: inputs beside the value and its level. pixel: [queries, heads, 2] in float64 of queries first to last, of which
    the last SAMPLED read the last rows. weights: [queries, heads], of one sample each.
    """
    import torch

    rows = side * side
    value = torch.randn(1, rows, _HEADS, _CHANNELS, device=device, dtype=torch.float16)

    def expected(first: int, last: int) -> np.ndarray:
        """Queries first to last, corner by corner in float64, reading only the rows that they need."""
        at = pixel(first, last)
        low = at.floor()
        total = torch.zeros(last - first, _HEADS, _CHANNELS, device=device, dtype=torch.float64)
        head = torch.arange(_HEADS, device=device)
        for dx in (0, 1):
            for dy in (0, 1):
                column, row = low[..., 0] + dx, low[..., 1] + dy
                share = (1 - (at[..., 0] - column).abs()) * (1 - (at[..., 1] - row).abs())
                inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
                share = share * inside * weights[first:last].double()
                index = (row * side + column).long().clamp(0, rows - 1)
                total += share[..., None] * value[0, index, head].double()
        return numbers(total.reshape(last - first, _HEADS * _CHANNELS))

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        places = {
            "first queries": (0, SAMPLED),
            "middle queries": (rows // 2, rows // 2 + SAMPLED),
            "last queries": (rows - SAMPLED, rows),
        }
        return [
            (place, numbers(outputs[0][0, first:last]), expected(first, last))
            for place, (first, last) in places.items()
        ]

    level = {
        "spatial_shapes": torch.tensor([[side, side]], device=device),
        "level_start_index": torch.zeros(1, device=device, dtype=torch.int64),
    }
    return Huge({}, {"value": value, **level, **samples}, check)


def _of_locations(side: int, device: str) -> Huge:
    import torch

    shape = (1, side * side, _HEADS, 1, 1)
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    locations = torch.rand(*shape, 2, **half)
    locations[:, -SAMPLED:] = 1 - locations[:, -SAMPLED:] * 2**-8
    weights = torch.rand(*shape, **half)

    def pixel(first: int, last: int) -> Any:
        return locations[0, first:last, :, 0, 0].double() * side - 0.5

    samples = {"sampling_locations": locations, "attention_weights": weights}
    return _huge(side, device, samples, pixel, weights[0, ..., 0, 0])


def _of_offsets(side: int, device: str) -> Huge:
    """The weight of one sample is 1, whatever its logit."""
    import torch

    rows = side * side
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    references = torch.rand(1, rows, 1, 1, 2, device=device)
    references[:, -SAMPLED:] = 1 - references[:, -SAMPLED:] * 2**-8
    offsets = torch.randn(1, rows, _HEADS, 1, 1, 2, **half)

    def pixel(first: int, last: int) -> Any:
        reference = references[0, first:last, 0].double()
        return reference * side - 0.5 + offsets[0, first:last, :, 0, 0].double()

    samples = {
        "reference_points": references,
        "sampling_offsets": offsets,
        "attention_logits": torch.randn(1, rows, _HEADS, 1, 1, **half),
    }
    return _huge(side, device, samples, pixel, torch.ones(rows, _HEADS, device=device))


HUGE = HugeCase(_of_locations, size=2900, small=20)
HUGE_OF_OFFSETS = HugeCase(_of_offsets, size=2900, small=20)
