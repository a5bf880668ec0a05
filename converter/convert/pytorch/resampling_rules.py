"""Writes antialiased interpolation as products of matrices, where the ONNX exporter of PyTorch takes other coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_CUBIC = -0.5
"""PyTorch's cubic coefficient where it antialiases (aten/src/ATen/native/cpu/UpSampleKernel.cpp)."""


def _linear(distance: Any) -> Any:
    return (1 - distance).clamp(min=0)


def _cubic(distance: Any) -> Any:
    near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance - 4
    return torch.where(distance < 1, near, torch.where(distance < 2, _CUBIC * far, 0.0))


def _weights(kernel: Callable[[Any], Any], x: Any, dim: int, size: Any, step: Any) -> Any:
    """float32 [size, elements along the axis]. step: elements between two results."""
    place = torch.arange(x.shape[dim], device=x.device) + 0.5
    centre = (torch.arange(size, device=x.device) + 0.5) * step
    weights = kernel((place - centre[:, None]).abs() / max(step, 1.0))
    return weights / weights.sum(-1, True)


def _antialiased(kernel: Callable[[Any], Any]) -> Callable[..., Any]:
    """For given scales or aligned corners. The exporter takes the quotient of the sizes in place of a scale, and ONNX aligns
    corners where PyTorch, which antialiases, does not.

    The formula is that of PyTorch's CPU kernel: the middle of result i is at (i + 1/2) * step in every case.
    """

    def rule(
        x: Any,
        output_size: Sequence[Any] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> Any:
        before = x.shape[2:]
        known = all(isinstance(n, int) for n in before)
        if not (known if align_corners else scale_factors):
            return NotImplemented
        sizes = output_size or [
            torch.sym_int(n * scale) for n, scale in zip(before, scale_factors or (), strict=True)
        ]
        made = x.to(torch.float32)
        for axis, (n, size) in enumerate(zip(before, sizes, strict=True)):
            step = 1 / scale_factors[axis] if scale_factors else n / size
            if align_corners:
                step = (n - 1) / (size - 1) if size > 1 else 0.0
            weights = _weights(kernel, x, axis + 2, size, step)
            made = torch.matmul(made.movedim(axis + 2, -1), weights.mT).movedim(-1, axis + 2)
        return made.to(x.dtype)

    return rule


antialiased_linear = _antialiased(_linear)
antialiased_cubic = _antialiased(_cubic)
