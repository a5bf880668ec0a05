"""Writes adaptive pooling, for which PyTorch's ONNX exporter has no translation, as reductions of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch


def _windows(x: Any, dim: int, count: int) -> tuple[Any, Any]:
    """(elements along the axis, last and per window; which of them the window has, None for all).

    Window i of n elements goes from floor(i n / count) to ceil((i + 1) n / count), as in PyTorch.
    """
    last = x.movedim(dim, -1)
    size = last.shape[-1]
    if count == 1:
        return last.unsqueeze(-2), None
    if isinstance(size, int) and size % count == 0:
        return last.unflatten(-1, (count, size // count)), None
    window, place = torch.arange(count, device=x.device)[:, None], torch.arange(size, device=x.device)
    inside = (window * size < (place + 1) * count) & (place * count < (window + 1) * size)
    return last.unsqueeze(-2), inside


def adaptive_average(x: Any, output_size: Sequence[int]) -> Any:
    """Averages one axis after the other. x [..., D, H, W]."""
    for dim, count in enumerate(output_size, -len(output_size)):
        rows, inside = _windows(x, dim, count)
        if inside is None:
            x = rows.mean(-1).movedim(-1, dim)
        else:
            weights = inside.to(x.dtype)
            x = torch.matmul(rows.squeeze(-2), (weights / weights.sum(-1, True)).mT).movedim(-1, dim)
    return x


def adaptive_maximum(x: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    """Maxima and their flat positions, one axis after the other from the last, so that the first of equal elements wins."""
    axes = x.shape[-len(output_size) :]
    places = torch.arange(math.prod(axes), device=x.device).reshape(axes).expand(x.shape)
    for dim in range(-1, -len(output_size) - 1, -1):
        rows, inside = _windows(x, dim, output_size[dim])
        marks = _windows(places, dim, output_size[dim])[0]
        if inside is not None:
            rows = torch.where(inside, rows, torch.finfo(x.dtype).min)
            marks = marks.expand(rows.shape)
        best = rows.argmax(-1, True)
        x, places = (
            one.squeeze(-1).movedim(-1, dim) for one in (rows.amax(-1, True), marks.gather(-1, best))
        )
    return x, places
