"""Writes pooling that PyTorch's ONNX exporter does not translate, or not rightly: by sizes of the result or by a divisor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def divided_sums(axes: int, pool: Any) -> Callable[..., Any]:
    """Average pooling with a divisor of its own, which the exporter leaves out; not with windows cut by ceil_mode."""

    def rule(
        x: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if divisor_override is None or ceil_mode:
            return NotImplemented
        elements = math.prod(kernel_size) if len(kernel_size) == axes else kernel_size[0] ** axes
        return pool(x, kernel_size, stride, padding) * (elements / divisor_override)

    return rule
