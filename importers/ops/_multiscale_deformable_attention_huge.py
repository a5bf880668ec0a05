"""Runs multi-scale deformable attention on tensors of more than 2^31 elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Huge, HugeCase
from trtsmith.importers.ops._huge import SAMPLED, numbers


def _huge(side: int, device: str) -> Huge:
    """One level of side x side and as many queries: at 2900, value and output have 2.15e9 elements each (4.3 GB)."""
    import torch

    heads, channels = 8, 32
    rows = side * side
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    value = torch.randn(1, rows, heads, channels, **half)
    locations = torch.rand(1, rows, heads, 1, 1, 2, **half)
    locations[:, -SAMPLED:] = 1 - locations[:, -SAMPLED:] * 2**-8  # the last queries read the last rows
    weights = torch.rand(1, rows, heads, 1, 1, **half)

    def expected(first: int, last: int) -> np.ndarray:
        """Queries first to last, corner by corner in float64, reading only the rows that they need."""
        pixel = locations[0, first:last, :, 0, 0].double() * side - 0.5
        low = pixel.floor()
        total = torch.zeros(last - first, heads, channels, device=device, dtype=torch.float64)
        head = torch.arange(heads, device=device)
        for dx in (0, 1):
            for dy in (0, 1):
                column, row = low[..., 0] + dx, low[..., 1] + dy
                share = (1 - (pixel[..., 0] - column).abs()) * (1 - (pixel[..., 1] - row).abs())
                inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
                share = share * inside * weights[0, first:last, :, 0, 0].double()
                index = (row * side + column).long().clamp(0, rows - 1)
                total += share[..., None] * value[0, index, head].double()
        return numbers(total.reshape(last - first, heads * channels))

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

    inputs = {
        "value": value,
        "spatial_shapes": torch.tensor([[side, side]], device=device),
        "level_start_index": torch.zeros(1, device=device, dtype=torch.int64),
        "sampling_locations": locations,
        "attention_weights": weights,
    }
    return Huge({}, inputs, check)


HUGE = HugeCase(_huge, size=2900, small=20)
