"""The case of more than 2^31 elements of both multi-scale deformable attentions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign.model import SAMPLED, Huge, numbers

HEADS, CHANNELS = 8, 32


def huge_attention(
    side: int, device: str, samples: dict[str, Any], pixel: Callable[[int, int], Any], weights: Any
) -> Huge:
    """One level of side x side and as many queries: at 2900, value and output have 2.15e9 elements each (4.3 GB).

    samples: inputs beside the value and its level. pixel: [queries, heads, 2] in float64 of queries first to last, of which
    the last SAMPLED read the last rows. weights: [queries, heads], of one sample each.
    """
    import torch

    rows = side * side
    value = torch.randn(1, rows, HEADS, CHANNELS, device=device, dtype=torch.float16)

    def expected(first: int, last: int) -> np.ndarray:
        """Queries first to last, corner by corner in float64, reading only the rows that they need."""
        at = pixel(first, last)
        low = at.floor()
        total = torch.zeros(last - first, HEADS, CHANNELS, device=device, dtype=torch.float64)
        head = torch.arange(HEADS, device=device)
        for dx in (0, 1):
            for dy in (0, 1):
                column, row = low[..., 0] + dx, low[..., 1] + dy
                share = (1 - (at[..., 0] - column).abs()) * (1 - (at[..., 1] - row).abs())
                inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
                share = share * inside * weights[first:last].double()
                index = (row * side + column).long().clamp(0, rows - 1)
                total += share[..., None] * value[0, index, head].double()
        return numbers(total.reshape(last - first, HEADS * CHANNELS))

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
