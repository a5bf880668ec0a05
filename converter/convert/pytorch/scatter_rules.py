"""Writes scatters with a reduction, for which PyTorch's ONNX exporter has no right translation, as others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_aten = torch.ops.aten


def _part(src: Any, index: Any) -> Any:
    """The part of src that index reads, as ONNX wants both of one shape."""
    for axis, (size, whole) in enumerate(zip(index.shape, src.shape, strict=True)):
        if isinstance(size, int) and isinstance(whole, int) and size != whole:
            src = src.narrow(axis, 0, size)
    return src


def scatter_of_part(operator: Any) -> Callable[..., Any]:
    def rule(x: Any, dim: int, index: Any, src: Any) -> Any:
        part = _part(src, index)
        return NotImplemented if part is src else operator(x, dim, index, part)

    return rule


def scatter_reduced(x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Divides sums by counts for a mean, which ONNX lacks: PyTorch's exporter writes the last of the values."""
    part = _part(src, index)
    if reduce != "mean":
        if part is src:
            return NotImplemented
        return _aten.scatter_reduce.two(x, dim, index, part, reduce, include_self=include_self)
    count = torch.zeros_like(x).scatter_add(dim, index, torch.ones_like(part))
    start = x if include_self else torch.where(count == 0, x, 0)
    total = start.scatter_add(dim, index, part)
    count = count + 1 if include_self else count.clamp(min=1)
    return total / count if x.dtype.is_floating_point else total // count


def index_reduced(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """index: positions [n] along the axis, of source's slices."""
    if x.dim() == 0:
        return NotImplemented
    along = [1] * x.dim()
    along[dim] = -1
    places = index.reshape(along).expand(source.shape)
    return _aten.scatter_reduce.two(x, dim, places, source, reduce, include_self=include_self)


def scattered(x: Any, dim: int, index: Any, src: Any, *, reduce: str) -> Any:
    """reduce: "add" or "multiply"."""
    return _aten.scatter_reduce.two(x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def scattered_value(x: Any, dim: int, index: Any, value: float, *, reduce: str) -> Any:
    return scattered(x, dim, index, torch.full_like(index, value, dtype=x.dtype), reduce=reduce)


def with_diagonal(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """x with src [..., k] on the diagonal of the two axes."""
    matrix = x.movedim((dim1, dim2), (-2, -1))
    row, column = (torch.arange(size, device=x.device) for size in matrix.shape[-2:])
    place = (row[:, None] if offset >= 0 else column[None, :]).clamp(max=src.shape[-1] - 1)
    spread = src[..., place]
    return torch.where(column[None, :] - row[:, None] == offset, spread, matrix).movedim(
        (-2, -1), (dim1, dim2)
    )


def with_strided(
    x: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """x with src in the places of a view by strides, as of fill_diagonal_."""
    if not x.is_contiguous():
        return NotImplemented
    places = torch.full((1,), storage_offset or 0, device=x.device)
    for length, step in zip(size, stride, strict=True):
        places = (places[:, None] + torch.arange(length, device=x.device) * step).reshape(-1)
    return x.reshape(-1).scatter(0, places, src.reshape(-1)).reshape(x.shape)
